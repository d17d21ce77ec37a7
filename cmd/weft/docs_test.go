package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/internal/docs"
)

// commandLine is a call of the program in a sample: what comes before it ended
// another command.
var commandLine = regexp.MustCompile(`(?m)(?:^|[|&;(] ?)(?:\$ )?((?:bin/)?weft [^|&;)\n]*)`)

// TestThePagesKnowTheCommands looks up each command that a page names, also where no
// sample runs it: the commands and the flags must be there.
func TestThePagesKnowTheCommands(t *testing.T) {
	pages, err := docs.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	n, program := 0, wholeProgram()
	check := func(at, line string) {
		n++
		for _, words := range alternatives(strings.Fields(line)[1:]) {
			if err := knows(program, words); err != nil {
				t.Errorf("%s: `%s`: %v", at, line, err)
			}
		}
	}
	for _, page := range pages {
		for _, span := range page.Spans {
			if name, _, _ := strings.Cut(span.Text, " "); name != span.Text && (name == "weft" || name == "bin/weft") {
				check(span.At(), span.Text)
			}
		}
		for _, b := range page.Blocks {
			for _, m := range commandLine.FindAllStringSubmatch(strings.ReplaceAll(b.Body, "\\\n", " "), -1) {
				check(b.At(), m[1])
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d command lines were found", n)
	}
}

// wholeProgram has the commands too that cobra adds when the program runs.
func wholeProgram() *cobra.Command {
	root := NewRootCommand(Streams{Out: io.Discard, Err: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// alternatives writes `job cancel|retry` out, which in a table is `cancel\|retry`.
func alternatives(words []string) [][]string {
	for i, word := range words {
		parts := strings.Split(strings.ReplaceAll(word, `\`, ""), "|")
		if len(parts) == 1 {
			continue
		}
		var all [][]string
		for _, part := range parts {
			all = append(all, alternatives(append(append(append([]string{}, words[:i]...), part), words[i+1:]...))...)
		}
		return all
	}
	return [][]string{words}
}

// knows looks up a command line. Brackets around what may be left out are not read.
func knows(cmd *cobra.Command, words []string) error {
	named := true // the words until now name a command
	for _, word := range words {
		word = strings.Trim(word, "[]")
		if word == "--" {
			return nil // what follows is somebody else's command
		}
		if sub := child(cmd, word); named && sub != nil {
			cmd = sub
			continue
		}
		if strings.HasPrefix(word, "-") && word != "-" {
			if err := hasFlag(cmd, word); err != nil {
				return err
			}
		} else if named && cmd.HasSubCommands() && cmd.ValidateArgs([]string{strings.ToLower(word)}) != nil {
			return fmt.Errorf("%q is no command of %s", word, cmd.CommandPath())
		}
		named = false
	}
	return nil
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

func hasFlag(cmd *cobra.Command, word string) error {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	cmd.InitDefaultHelpFlag()
	has := cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil
	if !strings.HasPrefix(word, "--") {
		has = len(name) == 1 && cmd.Flags().ShorthandLookup(name) != nil
	}
	if !has {
		return fmt.Errorf("%s has no flag %s; see %s --help", cmd.CommandPath(), word, cmd.CommandPath())
	}
	return nil
}

func TestWrongCommandLinesAreFound(t *testing.T) {
	program := wholeProgram()
	for line, wrong := range map[string]bool{
		"job ls --state failed":                           false,
		"job ls --stat failed":                            true,
		"job lst":                                         true,
		"jobs":                                            true,
		"job cancel|retry [--stage S]":                    false,
		"job cancel|retrie [--stage S]":                   true,
		"job outcomes NAME --json":                        false,
		"job outcomes ls --jsn":                           true,
		"work hash -c 2 -- sha256sum --check":             false,
		"work hash -q -- sha256sum":                       true,
		"cron add NAME STAGE --schedule '30 2 * * *'":     false,
		"enqueue hash --input -":                          false,
		"run hash --jobs=jobs.jsonl --timeout 1s -- true": false,
	} {
		var err error
		for _, words := range alternatives(strings.Fields(line)) {
			err = errors.Join(err, knows(program, words))
		}
		if (err != nil) != wrong {
			t.Errorf("%s: %v", line, err)
		}
	}
}
