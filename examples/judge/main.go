// Command judge is an online judge in the form of a Weft runner command: one
// process judges one submission and prints one verdict.
//
// It reads the job record as a JSON object on standard input. The record's
// input_ref says where the source is (a path, a file: URI or a data: URI) and
// its payload names the problem and the language:
//
//	{"id":"sum-go","attempt":1,"input_ref":"sum.go.txt","payload":{"problem":"sum","language":"go"}}
//
// The verdict is one line of JSON on standard output, and the exit status tells
// the runner what became of the attempt:
//
//	0    the submission was judged, whatever the verdict
//	65   this job can never be judged here: bad record, unknown problem, no compiler
//	143  SIGTERM or an interrupt stopped the judging
//	1    the judge itself failed, and another attempt may do better
//
// Whatever the status, the reason is one line on standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit statuses of the runner contract.
const (
	exitJudged    = 0
	exitFailed    = 1
	exitPermanent = 65
	exitStopped   = 143
)

func main() {
	if isLauncher(os.Args) {
		os.Exit(launch(os.Args))
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it judges the record on stdin and returns
// the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := judgeRecord(args, stdin, stdout, stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(stderr, "judge: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return exitStatus(err)
}

func exitStatus(err error) int {
	var permanent permanentError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitJudged
	case errors.As(err, &permanent):
		return exitPermanent
	case errors.Is(err, context.Canceled):
		return exitStopped
	default:
		return exitFailed
	}
}

func judgeRecord(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	problems, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	rec, err := readRecord(stdin)
	if err != nil {
		return err
	}
	// Signals are taken over only here, so that one that arrives while the record
	// is still awaited ends the process in the ordinary way.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	v, err := judge(ctx, problems, rec)
	if err != nil {
		return err
	}
	_, err = stdout.Write(v.line())
	return err
}

// parseFlags returns the directory of the problems.
func parseFlags(args []string, stderr io.Writer) (string, error) {
	flags := flag.NewFlagSet("judge", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dir := flags.String("problems", "examples/judge/problems", "directory with one folder for each problem")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stderr, "usage: judge [-problems DIR] < record.json")
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return "", err
	case err != nil:
		return "", permanentf("%w; run judge -h for the flags", err)
	case flags.NArg() > 0:
		return "", permanentf("unexpected argument %q: the job record comes on standard input; run judge -h for the flags", flags.Arg(0))
	}
	return *dir, nil
}
