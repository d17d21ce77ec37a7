// Command versitygw is an S3 server for tests: the Versity gateway on two folders,
// which listens on a Unix socket until its standard input ends. It has a module of
// its own, so that what it needs is no part of Weft's.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: versitygw SOCKET FOLDER METADATA-FOLDER"))
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	_, _ = fmt.Fprintln(os.Stderr, "versitygw:", err)
	os.Exit(1)
}

func run(socket, objects, metadata string) error {
	// Not every file system has extended attributes: what goes with an object is kept
	// beside it.
	storer, err := meta.NewSideCar(metadata)
	if err != nil {
		return err
	}
	backend, err := posix.New(objects, storer, posix.PosixOpts{SideCarDir: metadata})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: os.Getenv("AWS_ACCESS_KEY_ID"), RootUserSecret: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		Ports: []string{socket}, MaxConnections: 100, MaxRequests: 100, MultipartMaxParts: 10_000,
		Quiet: true, KeepAlive: true,
	})
}
