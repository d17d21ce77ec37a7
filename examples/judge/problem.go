package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// problem is one folder under the problems directory: problem.json and the
// numbered tests, NN.in with NN.ans.
type problem struct {
	Title         string  `json:"title"`
	TimeLimitMS   int64   `json:"time_limit_ms"`
	MemoryLimitMB int64   `json:"memory_limit_mib"`
	Checker       string  `json:"checker"`
	Tolerance     float64 `json:"tolerance"`

	cases []testCase
	check checker
}

// testCase is one input with its expected output.
type testCase struct {
	name   string
	input  string // path
	answer string // path
}

func (p problem) timeLimit() time.Duration {
	return time.Duration(p.TimeLimitMS) * time.Millisecond
}

func (p problem) memoryLimit() int64 { return p.MemoryLimitMB << 20 }

// loadProblem looks the name up among the folders that are there, rather than
// joining it to a path, so that no name reaches outside the directory.
func loadProblem(dir, name string) (problem, error) {
	known, err := problemNames(dir)
	if err != nil {
		return problem{}, permanentf("the problems directory cannot be read: %w; name it with -problems DIR", err)
	}
	if !slices.Contains(known, name) {
		return problem{}, permanentf("payload member problem is %q; the known problems are %s", name, strings.Join(known, ", "))
	}
	p, err := readProblem(filepath.Join(dir, name))
	if err != nil {
		return problem{}, permanentf("problem %q is broken: %w", name, err)
	}
	return p, nil
}

func problemNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func readProblem(dir string) (problem, error) {
	data, err := os.ReadFile(filepath.Join(dir, "problem.json"))
	if err != nil {
		return problem{}, err
	}
	p, err := parseProblem(data)
	if err != nil {
		return problem{}, err
	}
	p.cases, err = findCases(dir)
	return p, err
}

// parseProblem refuses unknown members: a mistyped limit would otherwise be no
// limit at all.
func parseProblem(data []byte) (problem, error) {
	var p problem
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return problem{}, fmt.Errorf("problem.json: %w", err)
	}
	switch {
	case p.TimeLimitMS < 1 || p.TimeLimitMS > 60_000:
		return problem{}, fmt.Errorf("problem.json: time_limit_ms is %d; it must be 1 to 60000", p.TimeLimitMS)
	case p.MemoryLimitMB < 16 || p.MemoryLimitMB > 4096:
		return problem{}, fmt.Errorf("problem.json: memory_limit_mib is %d; it must be 16 to 4096, as a runtime alone takes some", p.MemoryLimitMB)
	}
	check, err := newChecker(p.Checker, p.Tolerance)
	p.check = check
	return p, err
}

// findCases pairs each NN.in with its NN.ans, in the order of their names.
func findCases(dir string) ([]testCase, error) {
	inputs, err := filepath.Glob(filepath.Join(dir, "*.in"))
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("it has no test; add 01.in and 01.ans")
	}
	var cases []testCase
	for _, input := range inputs {
		stem := strings.TrimSuffix(input, ".in")
		answer := stem + ".ans"
		if _, err := os.Stat(answer); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("test %s has an input and no expected output; add %s", filepath.Base(input), filepath.Base(answer))
		}
		cases = append(cases, testCase{name: filepath.Base(stem), input: input, answer: answer})
	}
	return cases, nil
}
