// Package s3test runs a real S3 server inside a test: the Versity gateway, which the
// test builds from its pinned module and starts on folders of its own. Nothing has
// to be installed. A package should start one for all its tests: the first build
// takes long.
package s3test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// AccessKey and SecretKey are those of the server's only user.
const (
	AccessKey = "weft-test-access"
	SecretKey = "weft-test-s3cret-do-not-show"
)

// patience bounds the start of a server that has been built.
const patience = 30 * time.Second

// Server is a server that runs until its test ends.
type Server struct {
	URL    string // http://127.0.0.1:PORT
	Client *minio.Client
}

// Start builds and starts a server with one bucket.
func Start(t *testing.T, bucket string) *Server {
	t.Helper()
	s := &Server{URL: "http://" + forward(t, run(t, build(t)))}
	client, err := minio.New(strings.TrimPrefix(s.URL, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Client = client
	if err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Put puts an object.
func (s *Server) Put(t *testing.T, bucket, key string, data []byte) {
	t.Helper()
	if _, err := s.Client.PutObject(t.Context(), bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
}

// build makes the program in the test's folder. The Go command keeps what it has
// compiled, so that only the first build is slow; a lock has the tests of another
// package wait for that, rather than do it once more beside it.
func build(t *testing.T) string {
	t.Helper()
	lock := flock.New(filepath.Join(os.TempDir(), "weft-s3test.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	_, here, _, _ := runtime.Caller(0)
	program := filepath.Join(t.TempDir(), "versitygw")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "tools", "versitygw")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the S3 server: %v\n%s", err, out)
	}
	return program
}

// run starts the program and gives its socket. It ends with its standard input, and
// so also when this process is killed.
func run(t *testing.T, program string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "s3") // a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "socket")
	objects, metadata := filepath.Join(dir, "objects"), filepath.Join(dir, "metadata")
	for _, folder := range []string{objects, metadata} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, socket, objects, metadata)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+AccessKey, "AWS_SECRET_ACCESS_KEY="+SecretKey)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it said tells more
		close(ended)
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	for began := time.Now(); ; {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return socket
		}
		select {
		case <-ended:
			t.Fatalf("the S3 server did not start: %s", said.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Since(began) > patience {
			t.Fatal("the S3 server does not listen")
		}
	}
}

// forward gives the server a port that is free for sure: this process listens on it
// and passes connections on.
func forward(t *testing.T, socket string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { pass(ctx, client, socket) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		passing.Wait()
	})
	return listener.Addr().String()
}

// pass carries one connection until either side ends or ctx does.
func pass(ctx context.Context, client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		ways.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // the other side sees the end
			_ = way[1].Close()
			_ = way[0].Close()
		})
	}
	ways.Wait()
}
