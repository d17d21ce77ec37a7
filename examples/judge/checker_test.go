package main

import (
	"strings"
	"testing"
)

func TestCheckers(t *testing.T) {
	tests := []struct {
		kind, got, want string
		detail          string // "" means accepted
	}{
		{"exact", "a b\nc\n", "a b\nc\n", ""},
		{"exact", "a b\nc", "a b\nc\n", ""},
		{"exact", "a  b\nc\n", "a b\nc\n", "line 1 differs"},
		{"exact", "a b\nc \n", "a b\nc\n", "line 2 differs"},
		{"exact", "a b\n", "a b\nc\n", "output has 1 lines, expected 2"},
		{"exact", "a b\n\n", "a b\n", "output has 2 lines, expected 1"},
		{"exact", "", "x\n", "line 1 differs"},
		{"token", " 1\t2\n\n3", "1 2 3\n", ""},
		{"token", "1 2 4", "1 2 3\n", "token 3 differs"},
		{"token", "1 2", "1 2 3\n", "output has 2 tokens, expected 3"},
		{"token", "1.0", "1", "token 1 differs"},
		{"token", "", "", ""},
		{"float", "1.0000005 x", "1 x", ""},
		{"float", "1.00001", "1", "token 1 differs"},
		{"float", "1000000.5", "1000000", ""},
		{"float", "1e3", "1000", ""},
		{"float", "NaN", "1", "token 1 differs"},
		{"float", "1", "NaN", "token 1 differs"},
		{"float", "inf", "1", "token 1 differs"},
		{"float", "+Inf", "-Inf", "token 1 differs"},
		{"float", "no", "yes", "token 1 differs"},
		{"float", "", "1", "output has 0 tokens, expected 1"},
	}
	for _, test := range tests {
		check, err := newChecker(test.kind, 0)
		if err != nil {
			t.Fatal(err)
		}
		detail, ok := check([]byte(test.got), []byte(test.want))
		if detail != test.detail || ok != (test.detail == "") {
			t.Errorf("%s of %q against %q: %q, %t; want %q", test.kind, test.got, test.want, detail, ok, test.detail)
		}
	}
}

func TestToleranceOfTheProblem(t *testing.T) {
	check, err := newChecker("float", 0.01)
	if err != nil {
		t.Fatal(err)
	}
	if detail, ok := check([]byte("100.9"), []byte("100")); !ok {
		t.Errorf("100.9 is within 1 %% of 100, but %s", detail)
	}
}

func TestProblemRules(t *testing.T) {
	tests := map[string]string{
		`{"time_limit_ms":1,"memory_limit_mib":64,"checker":"token"}`:                     "",
		`{"time_limit_ms":1,"memory_limit_mib":64,"checker":"float","tolerance":0.5}`:     "",
		`{"time_limit_ms":0,"memory_limit_mib":64,"checker":"token"}`:                     "time_limit_ms is 0",
		`{"time_limit_ms":1,"memory_limit_mib":8,"checker":"token"}`:                      "memory_limit_mib is 8",
		`{"time_limit_ms":1,"memory_limit_mib":64,"checker":"fuzzy"}`:                     "known checkers are exact, token, float",
		`{"time_limit_ms":1,"memory_limit_mib":64,"checker":"float","tolerance":-1}`:      "tolerance is -1",
		`{"time_limit_ms":1,"memory_limit_mib":64,"checker":"token","time_limit_s":1}`:    "unknown field",
		`{"time_limit_ms":"1","memory_limit_mib":64,"checker":"token","time_limit_s":1}.`: "cannot unmarshal",
	}
	for text, reason := range tests {
		_, err := parseProblem([]byte(text))
		switch {
		case reason == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case reason != "" && (err == nil || !strings.Contains(err.Error(), reason)):
			t.Errorf("%s: error %v, want %q", text, err, reason)
		}
	}
}

// TestEveryProblemLoads also keeps each with enough tests to mean something.
func TestEveryProblemLoads(t *testing.T) {
	names, err := problemNames("problems")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p, err := loadProblem("problems", name)
		if err != nil {
			t.Error(err)
		} else if p.Title == "" || len(p.cases) < 4 {
			t.Errorf("%s has title %q and %d tests, want a title and at least 4", name, p.Title, len(p.cases))
		}
	}
}
