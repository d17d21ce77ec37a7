package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenSource(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a source.c")
	if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	escaped := strings.ReplaceAll(path, " ", "%20")
	tests := map[string]string{
		path:                                 "text",
		"a source.c":                         "text",
		"file:" + escaped:                    "text",
		"file://" + escaped:                  "text",
		"FILE://localhost" + escaped:         "text",
		"file:a%20source.c":                  "text",
		"data:,A%20brief%20note":             "A brief note",
		"data:;base64,aGVsbG8=":              "hello",
		"data:text/plain;charset=utf-8,a+b;": "a+b;",
		"DATA:text/x-c;base64,aW50IHg7":      "int x;",
		"data:,":                             "",
	}
	for ref, want := range tests {
		got, err := openSource(ref)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", ref, got, err, want)
		}
	}
}

func TestOpenSourceRefuses(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, maxSourceBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"":                        "it is empty",
		"no-such-file":            "no such file",
		"data:text/plain":         "cannot be opened",
		"data:;base64,!!!":        "cannot be opened",
		"file://elsewhere/a.c":    "must name this host",
		"http://example.org/a.c":  `scheme "http" is not supported`,
		"file:%zz":                "cannot be opened",
		".":                       "not a regular file",
		big:                       "more than 262144 bytes",
		strings.Repeat("x", 9999): "...",
	}
	for ref, reason := range tests {
		_, err := openSource(ref)
		if err == nil || !strings.Contains(err.Error(), reason) || exitStatus(err) != exitPermanent {
			t.Errorf("%.40s: error %v, want a permanent one with %q", ref, err, reason)
		}
	}
}
