package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// checker tells whether an output answers a test. When it does not, detail says
// where it first differs; it never quotes the answer, since submitters see it.
type checker func(got, want []byte) (detail string, ok bool)

// defaultTolerance is the absolute or relative error that the float checker
// forgives when the problem names none.
const defaultTolerance = 1e-6

func newChecker(kind string, tolerance float64) (checker, error) {
	if tolerance == 0 {
		tolerance = defaultTolerance
	}
	switch {
	case !(tolerance > 0 && tolerance < 1):
		return nil, fmt.Errorf("problem.json: tolerance is %v; it must be above 0 and below 1", tolerance)
	case kind == "exact":
		return checkExact, nil
	case kind == "token":
		return checkTokens(func(got, want string) bool { return got == want }), nil
	case kind == "float":
		return checkTokens(func(got, want string) bool { return closeEnough(got, want, tolerance) }), nil
	default:
		return nil, fmt.Errorf("problem.json: checker is %q; the known checkers are exact, token, float", kind)
	}
}

// checkExact compares line by line, byte by byte. Only the newline that ends
// the last line may be missing.
func checkExact(got, want []byte) (string, bool) {
	gotLines, wantLines := lines(got), lines(want)
	for i := range min(len(gotLines), len(wantLines)) {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			return "line " + strconv.Itoa(i+1) + " differs", false
		}
	}
	return compareCounts("lines", len(gotLines), len(wantLines))
}

func lines(text []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

// checkTokens compares the words of both outputs and takes any white space
// between them as the same.
func checkTokens(same func(got, want string) bool) checker {
	return func(got, want []byte) (string, bool) {
		gotWords, wantWords := bytes.Fields(got), bytes.Fields(want)
		for i := range min(len(gotWords), len(wantWords)) {
			if !same(string(gotWords[i]), string(wantWords[i])) {
				return "token " + strconv.Itoa(i+1) + " differs", false
			}
		}
		return compareCounts("tokens", len(gotWords), len(wantWords))
	}
}

func compareCounts(unit string, got, want int) (string, bool) {
	if got == want {
		return "", true
	}
	return "output has " + strconv.Itoa(got) + " " + unit + ", expected " + strconv.Itoa(want), false
}

// closeEnough accepts an absolute or a relative error up to the tolerance.
// Words that are not finite numbers have to be equal as text.
func closeEnough(got, want string, tolerance float64) bool {
	if got == want {
		return true
	}
	g, errGot := strconv.ParseFloat(got, 64)
	w, errWant := strconv.ParseFloat(want, 64)
	if errGot != nil || errWant != nil || math.IsInf(g, 0) || math.IsInf(w, 0) {
		return false
	}
	// A NaN on either side makes the comparison false, as it should be.
	return math.Abs(g-w) <= tolerance*max(1, math.Abs(w))
}
