// Package exec runs a command for each attempt at a job: it is the worker.Handler
// behind weft work and weft run.
//
// The contract with the command:
//
//   - stdin is the job's record as JSON, and then ends. The command need not
//     read it. Options.Input puts the input there, or with Options.InputFile into
//     a file, WEFT_INPUT_FILE; Options.InputURL gives a link, WEFT_INPUT_URL.
//   - The environment has WEFT_JOB_ID, WEFT_STAGE, WEFT_ATTEMPT, WEFT_FENCE,
//     WEFT_INPUT_REF, WEFT_KEY and WEFT_WORKER_ID, beside what the worker itself
//     has.
//   - Exit 0 is success, and stdout is the output. Exit 65 is a permanent
//     failure. Exit 75 gives the job back at no charge. Any other end is a
//     failure that is tried again while attempts are left.
//   - The end of stderr is the reason; its lines also go to the log.
//   - When the attempt has to stop, the command's whole process group gets
//     SIGTERM, and SIGKILL once the grace is over.
//
// The rule it keeps: when Work returns, nothing of the attempt runs any more.
// Whatever the command leaves behind in its process group is killed, also after
// a success, and a process that left the group cannot hold Work up, since the
// pipes are closed on it. A worker that is itself killed takes its commands with
// it where the system can do that, which is on Linux.
package exec
