// Command weft publishes jobs on NATS JetStream, runs them, and looks at them.
//
// The package holds flags, output and exit codes; what a command does is done by
// the packages below it. Each command is one file and one constructor.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// With the default a closed stdout would kill the process in the middle of
	// its clean-up; so it is an error of the write. Commands that are started get
	// the default back.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(Execute(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
