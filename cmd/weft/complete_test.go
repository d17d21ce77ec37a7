package main

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/natstest"
)

// completed are the choices that a shell is given, without what is said of them.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	r := weft(t, "", append([]string{"__complete"}, args...)...).want(t, app.ExitDone)
	var choices []string
	for _, line := range r.lines() {
		if choice, _, _ := strings.Cut(line, "\t"); !strings.HasPrefix(choice, ":") {
			choices = append(choices, choice)
		}
	}
	return choices
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, id := range []string{"one", "other"} {
		s.weft(t, "enqueue", "hash", "--input-ref", "data:,x", "--id", id).want(t, app.ExitDone)
	}
	s.weft(t, "enqueue", "resize", "--input-ref", "data:,x", "--id", "two").want(t, app.ExitDone)
	for line, want := range map[string]string{
		"work --server URL -":              "",
		"work --server URL ":               "hash resize",
		"stage info --server URL r":        "resize",
		"stage info --server URL hash ":    "",
		"job ls --server URL --stage ":     "hash resize",
		"job get --server URL o":           "one other",
		"job get --server URL one ":        "other two",
		"job ls --state ":                  "waiting retry_waiting leased succeeded failed cancelled",
		"job ls --role ":                   "backend runner operator viewer",
		"serve --log-level ":               "debug info warn error",
		"work hash --stdin ":               "record input",
		"stage info --server 127.0.0.1:1 ": "",
		"work hash --server URL -- r":      "",
	} {
		args := strings.Split(strings.Replace(line, "URL", s.url, 1), " ")
		got := completed(t, args...)
		if strings.HasSuffix(line, "-") {
			if !slices.Contains(got, "--concurrency") {
				t.Errorf("%q gives %q", line, got)
			}
			continue
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q gives %q, want %q", line, got, want)
		}
	}
}

// Whoever presses a key has asked for no bucket.
func TestCompletionMakesNothing(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	if got := completed(t, "stage", "info", "--server", server.URL(), ""); len(got) > 0 {
		t.Errorf("it gives %q", got)
	}
	js, err := jetstream.New(server.Connect())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(t.Context(), "KV_weft"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket: %v", err)
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out := weft(t, "", "completion", shell).want(t, app.ExitDone).out
		if !strings.Contains(out, "__complete") {
			t.Errorf("the script for %s asks for nothing", shell)
		}
		if shell != "bash" {
			continue
		}
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(out)
		if text, err := check.CombinedOutput(); err != nil {
			t.Errorf("bash does not read it: %v\n%s", err, text)
		}
	}
}

// Colours are for a terminal alone, and for whoever wants them.
func TestColoursAreForATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.weft(t, "enqueue", "hash", "--input-ref", "data:,x", "--id", "one").want(t, app.ExitDone)
	s.weft(t, "job", "cancel", "one").want(t, app.ExitDone)
	const yellow = "\x1b[33mcancelled\x1b[0m"
	list := func(env ...string) *exec.Cmd {
		cmd := asProcess(s.args([]string{"job", "ls"})...)
		cmd.Env = append(append(cmd.Env, "TERM=xterm"), env...)
		return cmd
	}
	if out := onTerminal(t, list("NO_COLOR=")); !strings.Contains(out, yellow) {
		t.Errorf("a terminal gets no colour: %q", out)
	}
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		if out := onTerminal(t, list(env)); strings.Contains(out, "\x1b") {
			t.Errorf("%s: there is colour: %q", env, out)
		}
	}
	if out, err := list().Output(); err != nil || strings.Contains(string(out), "\x1b") || !strings.Contains(string(out), "s ago") {
		t.Errorf("a pipe gets %q, %v", out, err)
	}
	if r := s.weft(t, "job", "ls", "--json").want(t, app.ExitDone); !strings.Contains(r.out, `Z"`) || strings.Contains(r.out, "ago") {
		t.Errorf("--json has no RFC 3339: %s", r.out)
	}
}
