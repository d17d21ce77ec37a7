// Command weft publishes jobs on NATS JetStream, runs them, and looks at them.
//
// The package holds flags, output and exit codes; what a command does is done by
// the packages below it. Each command is one file and one constructor.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // cron entries have time zones, also where the system knows none
)

func main() {
	// With the default a closed stdout would kill the process in the middle of
	// its clean-up; so it is an error of the write. Commands that are started get
	// the default back.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	calmCollector()
	os.Exit(Execute(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// calmCollector lets the garbage collector run less often, unless somebody has
// said how often. What a worker keeps is little, and what it throws away for each
// job is much of what a short job costs: a tenth, by the benchmark.
func calmCollector() { collectAt(300) }

// usualCollector undoes calmCollector in a process that has a server in it, which
// may keep gigabytes.
func usualCollector() { collectAt(100) }

func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
