package main

import (
	"os"
	"time"
)

// limits is what one process may use. A memory of zero leaves the resident size
// free; the others are always set.
type limits struct {
	cpu    time.Duration // time on a processor, which decides time_limit
	wall   time.Duration // backstop for a program that waits instead of computing
	memory int64         // bytes resident
	data   int64         // bytes of private memory the kernel lets it map at all
	file   int64         // bytes of any one file it writes, its output among them
}

// task is one process to run within limits: a compiler or a submission.
type task struct {
	argv   []string // argv[0] is the absolute path of the program
	env    []string
	dir    string
	stdin  *os.File // nil means empty
	stdout *os.File
	stderr *os.File
	limits limits
}

// stopReason is why the judge killed a process, if it did.
type stopReason int

const (
	stopNone stopReason = iota
	stopCPU
	stopWall
	stopMemory
	stopOutput
	stopCancelled
)

// outcome is how a process ended and what it used.
type outcome struct {
	stopped stopReason
	ending  string // "" for exit status 0, else a few words such as "exit status 3"
	cpu     time.Duration
	memory  int64 // bytes, the peak resident size
}
