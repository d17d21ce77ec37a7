package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The verdicts. All of them are successful jobs: the job was to find one.
const (
	accepted     = "accepted"
	wrongAnswer  = "wrong_answer"
	timeLimit    = "time_limit"
	memoryLimit  = "memory_limit"
	runtimeError = "runtime_error"
	compileError = "compile_error"
	outputLimit  = "output_limit"
)

const (
	maxVerdictBytes = 8<<10 - 1 // one line, its newline included
	maxMessageBytes = 2 << 10
	maxDetailBytes  = 200
)

// verdict is the job's output. The order of its members is part of the format.
type verdict struct {
	Verdict string       `json:"verdict"`
	Passed  int          `json:"passed"`
	Total   int          `json:"total"`
	Message string       `json:"message,omitempty"`
	Cases   []caseResult `json:"cases"`
	// Omitted counts the cases left out to keep the line short. They are always
	// accepted ones, because judging stops at the first case that is not.
	Omitted int `json:"cases_omitted,omitempty"`
}

// caseResult is the verdict on one test.
type caseResult struct {
	Case      string `json:"case"`
	Verdict   string `json:"verdict"`
	TimeMS    int64  `json:"time_ms"`
	MemoryKiB int64  `json:"memory_kib"`
	Detail    string `json:"detail,omitempty"`
}

func newCaseResult(name string, o outcome, result, detail string) caseResult {
	return caseResult{
		Case:      name,
		Verdict:   result,
		TimeMS:    o.cpu.Round(time.Millisecond).Milliseconds(),
		MemoryKiB: o.memory >> 10,
		Detail:    plainText(detail, maxDetailBytes),
	}
}

// line renders the verdict as one line of JSON. Of a problem with a great many
// tests the first cases are dropped, because the last one explains the verdict.
func (v verdict) line() []byte {
	for {
		line := encode(v)
		if len(line) <= maxVerdictBytes || len(v.Cases) == 0 {
			return line
		}
		drop := (len(v.Cases) + 9) / 10
		v.Cases = v.Cases[drop:]
		v.Omitted += drop
	}
}

func encode(v verdict) []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	// A verdict holds strings and integers alone, which always encode.
	_ = encoder.Encode(v)
	return line.Bytes()
}

// plainText makes the text of a compiler or a submission safe to report: valid
// UTF-8, no control characters, no longer than most bytes. JSON therefore needs
// at most two bytes for each of its bytes.
func plainText(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.TrimSpace(strings.ToValidUTF8(text, "?")))
	return cut(text, most)
}

// cut shortens valid UTF-8 at a character's border and marks that it did.
func cut(text string, most int) string {
	const mark = "..."
	if len(text) <= most {
		return text
	}
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
