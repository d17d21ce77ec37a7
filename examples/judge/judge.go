package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// outputLimitBytes bounds each file that a submission writes, and so its
	// standard output and standard error.
	outputLimitBytes = 1 << 20
	// lastWordsBytes is how much of standard error is searched for signs of memory
	// running out.
	lastWordsBytes = 16 << 10
)

// compilerLimits are far above what an honest source needs, even on a machine
// that does other work and with a cold cache.
var compilerLimits = limits{
	cpu:  60 * time.Second,
	wall: 150 * time.Second,
	data: 2 << 30,
	file: 256 << 20,
}

// runLimits are the limits for one case. The resident size is what the problem
// limits; the kernel's bound on mapped memory is wider, because a program that
// maps memory and then leaves it alone does no harm. The wall clock is wide as
// well, because how long a program waits for a processor is not its own doing.
func runLimits(p problem, t toolchain) limits {
	return limits{
		cpu:    p.timeLimit(),
		wall:   5*p.timeLimit() + 3*time.Second,
		memory: p.memoryLimit(),
		data:   2*p.memoryLimit() + 64<<20 + t.slack,
		file:   outputLimitBytes,
	}
}

// judge finds the verdict on the submission that the record describes.
func judge(ctx context.Context, problemsDir string, rec record) (verdict, error) {
	p, err := loadProblem(problemsDir, rec.Payload.Problem)
	if err != nil {
		return verdict{}, err
	}
	tools, err := findToolchain(rec.Payload.Language)
	if err != nil {
		return verdict{}, err
	}
	source, err := openSource(rec.InputRef)
	if err != nil {
		return verdict{}, err
	}
	if rec.Payload.Fault == faultFirstAttempt && rec.Attempt == 1 {
		return verdict{}, fmt.Errorf("the runner failed, not the submission: payload member fault asks for a failure of attempt 1; the next attempt will be judged")
	}
	return judgeSource(ctx, p, tools, source)
}

// judgeSource compiles the source and runs it on the problem's cases.
func judgeSource(ctx context.Context, p problem, tools toolchain, source []byte) (v verdict, err error) {
	space, err := newWorkspace()
	if err != nil {
		return verdict{}, err
	}
	defer func() {
		if removeErr := space.remove(); err == nil {
			err = removeErr
		}
	}()
	if err := os.WriteFile(filepath.Join(space.build(), tools.file), source, 0o600); err != nil {
		return verdict{}, err
	}
	s := session{problem: p, tools: tools, space: space}
	if s.tools, err = s.resolveTool(ctx); err != nil {
		return verdict{}, err
	}
	message, ok, err := s.compile(ctx)
	switch {
	case err != nil:
		return verdict{}, err
	case !ok:
		return verdict{Verdict: compileError, Total: len(p.cases), Message: message, Cases: []caseResult{}}, nil
	}
	return s.runCases(ctx)
}

// session is one submission being judged.
type session struct {
	problem problem
	tools   toolchain
	space   workspace
}

func (s session) resolveTool(ctx context.Context) (toolchain, error) {
	if len(s.tools.resolve) == 0 {
		return s.tools, nil
	}
	o, out, err := s.build(ctx, s.tools.resolve)
	switch {
	case err != nil:
		return s.tools, err
	case o.ending != "":
		return s.tools, permanentf("language %q needs %s, and %s does not run: %s", s.tools.name, s.tools.tools[0], s.tools.tool, plainText(out, maxDetailBytes))
	}
	return s.tools.resolved(out)
}

// compile returns the compiler's message if it refuses the source.
func (s session) compile(ctx context.Context) (message string, ok bool, err error) {
	o, out, err := s.build(ctx, s.tools.compile)
	switch {
	case err != nil || o.ending == "":
		return "", err == nil, err
	case o.stopped != stopNone:
		return "the compiler was stopped: it took too long or wrote too much", false, nil
	default:
		return plainText(out, maxMessageBytes), false, nil
	}
}

// build runs a command of the toolchain in the build directory and returns what
// it wrote.
func (s session) build(ctx context.Context, command []string) (outcome, string, error) {
	dir := s.space.build()
	files, err := s.space.newRunDir()
	if err != nil {
		return outcome{}, "", err
	}
	defer files.close()

	o, err := runTask(ctx, task{
		argv:   s.tools.expand(command, dir),
		env:    s.tools.compilerEnv(dir),
		dir:    dir,
		stdout: files.stdout,
		stderr: files.stderr,
		limits: compilerLimits,
	})
	if err != nil {
		return outcome{}, "", err
	}
	var both bytes.Buffer
	for _, file := range []*os.File{files.stdout, files.stderr} {
		text, err := head(file, 2*maxMessageBytes)
		if err != nil {
			return outcome{}, "", err
		}
		both.Write(text)
	}
	// Where the workspace lies is nobody's concern, and differs from run to run.
	return o, strings.ReplaceAll(both.String(), dir, "."), nil
}

// runCases stops at the first case that is not accepted, whose verdict is the
// verdict on the submission.
func (s session) runCases(ctx context.Context) (verdict, error) {
	v := verdict{Verdict: accepted, Total: len(s.problem.cases)}
	for _, tc := range s.problem.cases {
		result, err := s.runCase(ctx, tc)
		if err != nil {
			return verdict{}, err
		}
		v.Cases = append(v.Cases, result)
		if result.Verdict != accepted {
			v.Verdict = result.Verdict
			break
		}
		v.Passed++
	}
	return v, nil
}

func (s session) runCase(ctx context.Context, tc testCase) (caseResult, error) {
	input, err := os.Open(tc.input)
	if err != nil {
		return caseResult{}, err
	}
	defer input.Close()
	files, err := s.space.newRunDir()
	if err != nil {
		return caseResult{}, err
	}
	defer files.close()

	o, err := runTask(ctx, task{
		argv:   s.tools.expand(s.tools.run, s.space.build()),
		dir:    files.work,
		stdin:  input,
		stdout: files.stdout,
		stderr: files.stderr,
		limits: runLimits(s.problem, s.tools),
	})
	if err != nil {
		return caseResult{}, err
	}
	result, detail, err := s.assess(o, files, tc)
	return newCaseResult(tc.name, o, result, detail), err
}

// assess turns an outcome into a verdict. A limit that was passed comes before
// how the process ended, because the ending is then only its consequence.
func (s session) assess(o outcome, files runDir, tc testCase) (result, detail string, err error) {
	lastWords, err := tail(files.stderr, lastWordsBytes)
	if err != nil {
		return "", "", err
	}
	switch {
	case fileSize(files.stdout) >= outputLimitBytes, fileSize(files.stderr) >= outputLimitBytes:
		return outputLimit, fmt.Sprintf("more than %d bytes", outputLimitBytes-1), nil
	case o.stopped == stopMemory, o.memory > s.problem.memoryLimit():
		return memoryLimit, fmt.Sprintf("more than %d MiB", s.problem.MemoryLimitMB), nil
	case o.stopped == stopWall:
		return timeLimit, "the wall clock ran out, whatever the time on a processor", nil
	case o.stopped == stopCPU, o.cpu > s.problem.timeLimit():
		return timeLimit, fmt.Sprintf("more than %d ms on a processor", s.problem.TimeLimitMS), nil
	case o.ending != "" && s.tools.exhausted(string(lastWords)):
		return memoryLimit, "it was refused more memory: " + o.ending, nil
	case o.ending != "":
		return runtimeError, o.ending, nil
	}
	return s.compare(files.stdout, tc)
}

func (s session) compare(stdout *os.File, tc testCase) (result, detail string, err error) {
	got, err := head(stdout, outputLimitBytes)
	if err != nil {
		return "", "", err
	}
	want, err := os.ReadFile(tc.answer)
	if err != nil {
		return "", "", err
	}
	if detail, ok := s.problem.check(got, want); !ok {
		return wrongAnswer, detail, nil
	}
	return accepted, "", nil
}
