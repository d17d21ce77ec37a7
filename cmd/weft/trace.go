package main

import (
	"os"

	"github.com/weft-fabric/weft/job"
)

// surroundingTrace is the trace that the program was started in, by the environment,
// as a command of an attempt is. One that is malformed is none: it is not about jobs.
func surroundingTrace() job.Trace {
	return job.TraceOf(os.Getenv(job.TraceParentVariable), os.Getenv(job.TraceStateVariable))
}
