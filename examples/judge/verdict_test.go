package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestVerdictLine(t *testing.T) {
	v := verdict{Verdict: wrongAnswer, Passed: 1, Total: 5, Cases: []caseResult{
		newCaseResult("01", outcome{cpu: 2600 * time.Microsecond, memory: 1200 << 10}, accepted, ""),
		newCaseResult("02", outcome{}, wrongAnswer, "line 1 differs"),
	}}
	want := `{"verdict":"wrong_answer","passed":1,"total":5,"cases":[` +
		`{"case":"01","verdict":"accepted","time_ms":3,"memory_kib":1200},` +
		`{"case":"02","verdict":"wrong_answer","time_ms":0,"memory_kib":0,"detail":"line 1 differs"}]}` + "\n"
	if got := string(v.line()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVerdictLineStaysShort(t *testing.T) {
	v := verdict{Verdict: runtimeError, Total: 1000}
	for range 1000 {
		v.Cases = append(v.Cases, caseResult{Case: "001", Verdict: accepted})
	}
	v.Cases = append(v.Cases, caseResult{Case: "last", Verdict: runtimeError})
	line := v.line()
	var back verdict
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	if len(line) > maxVerdictBytes || back.Omitted+len(back.Cases) != 1001 || back.Cases[len(back.Cases)-1].Case != "last" {
		t.Errorf("%d bytes, %d cases omitted, %d kept", len(line), back.Omitted, len(back.Cases))
	}
}

func TestVerdictLineWithTheWorstMessage(t *testing.T) {
	for _, bad := range []string{"\x00", "\"", "\\", "\n", "\xff", "\u2028", "<", "é"} {
		message := plainText("x"+strings.Repeat(bad, 100_000)+"x", maxMessageBytes)
		line := verdict{Verdict: compileError, Message: message, Cases: []caseResult{}}.line()
		if len(line) > maxVerdictBytes || !json.Valid(line) || !utf8.ValidString(message) {
			t.Errorf("%q gave a line of %d bytes", bad, len(line))
		}
	}
}

func TestPlainText(t *testing.T) {
	tests := []struct {
		text string
		most int
		want string
	}{
		{"  a\x1b[1mb\n", 20, "a [1mb"},
		{"abcdefgh", 8, "abcdefgh"},
		{"abcdefghi", 8, "abcde..."},
		{"aéééé", 8, "aéé..."},
		{"aaéééé", 8, "aaé..."},
	}
	for _, test := range tests {
		if got := plainText(test.text, test.most); got != test.want {
			t.Errorf("%q at most %d: %q, want %q", test.text, test.most, got, test.want)
		}
	}
}
