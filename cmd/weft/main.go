// Command weft publishes jobs on NATS JetStream, runs them, and looks at them.
//
// The package holds flags, output and exit codes; what a command does is done by
// the packages below it. Each command is one file and one constructor.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(Execute(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
