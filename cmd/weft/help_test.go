package main

// These tests hold what a reader is told to type, in the help, the manual and
// deploy/, against the commands as they are.

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/syntax"

	"github.com/weft-fabric/weft/internal/app"
)

// callsOf gives the calls of weft in a text of shell, as lists of arguments. What
// the shell would put in is a word, so that its place is taken.
func callsOf(text string) (calls [][]string, err error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || filepath.Base(wordOf(call.Args[0])) != "weft" {
			return true
		}
		var args []string
		for _, word := range call.Args[1:] {
			args = append(args, wordOf(word))
		}
		calls = append(calls, args)
		return true
	})
	return calls, nil
}

// wordOf is a word as a program would get it, but for what the shell knows.
func wordOf(word *syntax.Word) string {
	var text strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				text.WriteString(part.Value)
			case *syntax.SglQuoted:
				text.WriteString(part.Value)
			case *syntax.DblQuoted:
				add(part.Parts)
			default:
				text.WriteString("x")
			}
		}
	}
	add(word.Parts)
	return text.String()
}

// parseCall fails unless there is the command, with those flags and so many
// arguments.
func parseCall(args []string) error {
	cmd, rest, err := NewRootCommand(Streams{}).Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestEveryCommandHasExamplesThatParse(t *testing.T) {
	t.Parallel()
	visited := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			visit(child)
		}
		if cmd.Hidden {
			return
		}
		visited++
		calls, err := callsOf(cmd.Example)
		if err != nil || len(calls) == 0 {
			t.Errorf("%s has no example of a call: %v\n%s", cmd.CommandPath(), err, cmd.Example)
		}
		shown := false
		for _, args := range calls {
			if err := parseCall(args); err != nil {
				t.Errorf("%s has the example weft %s: %v", cmd.CommandPath(), strings.Join(args, " "), err)
			}
			shown = shown || strings.HasPrefix(strings.Join(append([]string{"weft"}, args...), " "), cmd.CommandPath())
		}
		if !shown && cmd.Name() != "config" { // a topic
			t.Errorf("%s has no example of itself:\n%s", cmd.CommandPath(), cmd.Example)
		}
	}
	visit(NewRootCommand(Streams{}))
	if visited < 25 {
		t.Errorf("%d commands were looked at", visited)
	}
}

func TestCallsThatDoNotParseAreFound(t *testing.T) {
	t.Parallel()
	calls, err := callsOf("A=b bin/weft wrok | weft job ls --no-such & id=$(weft work hash)\nweft job get \"$id\" --json | jq")
	if err != nil || len(calls) != 4 {
		t.Fatalf("%v, %v", calls, err)
	}
	for _, args := range calls[:3] {
		if parseCall(args) == nil {
			t.Errorf("weft %v parses", args)
		}
	}
	if err := parseCall(calls[3]); err != nil {
		t.Error(err)
	}
}

// code are the blocks of shell and the words in code of a page.
var code = regexp.MustCompile("(?s)```sh\n(.*?)\n```")

func TestCallsInTheManualParse(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "deploy", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range code.FindAllSubmatch(text, -1) {
			calls, err := callsOf(string(block[1]))
			if err != nil {
				t.Errorf("%s: %v in\n%s", page, err, block[1])
			}
			for _, args := range calls {
				found++
				if err := parseCall(args); err != nil {
					t.Errorf("%s: weft %s: %v", page, strings.Join(args, " "), err)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("%d calls were found", found)
	}
}

// The help shows the default that holds.
func TestHelpShowsTheLevelThatHolds(t *testing.T) {
	t.Parallel()
	for command, level := range map[string]string{"work": "info", "keep": "info", "serve": "info", "enqueue": "warn"} {
		out := weft(t, "", command, "--help").want(t, app.ExitDone).out
		line := regexp.MustCompile(`--log-level LEVEL.*`).FindString(out)
		if !strings.Contains(line, `(default "`+level+`")`) {
			t.Errorf("weft %s --help says %q, want %s", command, line, level)
		}
	}
}
