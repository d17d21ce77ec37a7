package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/job"
)

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"run"}, {"serve"}, {"enqueue"}, {"work"}, {"version"}, {"job"}, {"job", "get"}, {"job", "ls"},
		{"job", "wait"}, {"job", "watch"}, {"job", "outcomes"}, {"job", "outcomes", "ls"}, {"job", "outcomes", "rm"}, {"job", "output"}, {"job", "explain"}, {"job", "cancel"}, {"job", "retry"},
	} {
		r := weft(t, "", append(args, "--help")...).want(t, app.ExitDone)
		if !strings.Contains(r.out, "Examples:") || r.err != "" {
			t.Errorf("%v: no examples, or words on stderr: %s", args, r.err)
		}
	}
	if r := weft(t, "", "help", "config").want(t, app.ExitDone); !strings.Contains(r.out, "WEFT_LEASE") {
		t.Errorf("help config is %s", r.out)
	}
	if r := weft(t, "", "completion", "bash").want(t, app.ExitDone); !strings.Contains(r.out, "weft") {
		t.Error("no completion")
	}
	if r := weft(t, "", "version").want(t, app.ExitDone); !strings.HasPrefix(r.out, "weft ") {
		t.Errorf("version is %q", r.out)
	}
	if r := weft(t, "", "version", "--json").want(t, app.ExitDone); !json.Valid([]byte(r.out)) {
		t.Errorf("version is %q", r.out)
	}
}

// TestWrongUsage lists calls that must end with exit 2 and one line, without
// asking any server.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	file := writeFile(t, filepath.Join(t.TempDir(), "jobs.jsonl"), `{"input_ref":"data:,x"}`)
	for call, part := range map[string]string{
		"nosuch":      `"nosuch" is no command`,
		"wrok":        `did you mean "work"`,
		"job nosuch":  `"nosuch" is no command of weft job`,
		"--nosuch":    "unknown flag",
		"serve extra": "serve",
		"work hash --lease 10m --retention -- true": "unknown flag",
		"serve --nosuch":              "unknown flag",
		"serve --listen here":         `listen "here"`,
		"serve --listen h:0":          "listen",
		"serve --sync-interval 0s":    "sync_interval",
		"serve --sync-interval often": "such as 10s, or always",
		"serve --lease 0s":            "lease 0s",
		"serve --namespace Weft":      "namespace",
		"serve --log-level loud":      "log.level",
		"serve --log-format xml":      "log.format",
		"serve --config /no/such":     "/no/such",
		"version extra":               "version",

		"work":                             "after --",
		"work hash":                        "after --",
		"work -- true":                     "one stage",
		"work a b -- true":                 "one stage",
		"work hash --":                     "a command after --",
		"work Hash -- true":                "invalid_job",
		"work hash -- no-such-command":     `"no-such-command"`,
		"work hash --concurrency 0 -- t":   "concurrency 0",
		"work hash --concurrency x -- t":   "--concurrency",
		"work hash --lease 1 -- true":      "--lease",
		"work hash --lease 10ms -- true":   "lease 10ms",
		"work hash --drain 0s -- true":     "drain 0s",
		"work hash --id a.b -- true":       "worker_id",
		"work hash --max-output x -- true": "max-output",
		"work hash --max-output -1 -- t":   "",
		"work hash --creds c --nkey n -- ": "",
		"work hash --tlscert c -- true":    "tls.key",
		"work hash --password p -- true":   "password",
		"work hash --server ftp://x -- t":  "",

		"enqueue":                                                      "one stage",
		"enqueue a b --input-ref x":                                    "one stage",
		"enqueue hash":                                                 "give --input, --input-ref or --jobs",
		"enqueue Hash --input-ref x":                                   "invalid_job",
		"enqueue hash --input-ref=":                                    "input_ref",
		"enqueue hash --jobs /no/fil":                                  "/no/fil",
		"enqueue hash --jobs /":                                        "directory",
		"enqueue hash --keep-going --input-ref x":                      "--jobs",
		"enqueue hash --jobs " + file + " --id x":                      "give --jobs or --id, not both",
		"enqueue hash --jobs " + file + " --input-ref x":               "jobs",
		"enqueue hash --input-ref data:nonsense":                       "data: URI",
		"enqueue hash --input-ref data:;base64,%%%":                    "data: URI",
		"enqueue hash --input-ref nats-obj:bucket":                     "nats-obj://BUCKET/NAME",
		"enqueue hash --input-ref nats-obj://bucket":                   "nats-obj://BUCKET/NAME",
		"enqueue hash --input-ref x --input-revision -1":               "input_revision",
		"enqueue hash --input-ref x --id a.b":                          "id",
		"enqueue hash --input-ref x --id=":                             "--id",
		"enqueue hash --input-ref x --payload {":                       "--payload",
		"enqueue hash --input-ref x --payload=":                        "--payload",
		"enqueue hash --input-ref x --in 1s --at 2030-01-01T00:00:00Z": "give --in or --at, not both",
		"enqueue hash --input-ref x --input y":                         "give --input or --input-ref, not both",
		"enqueue hash --input-ref x --in -1s":                          "--in",
		"enqueue hash --input-ref x --in soon":                         `--in "soon" is not a duration`,
		"enqueue hash --input-ref x --at tomorrow":                     "--at",
		"enqueue hash --input-ref x --max-attempts 0":                  "max_attempts 0",
		"enqueue hash --input-ref x --priority 5":                      "priority 5",
		"enqueue hash --input-ref x --priority 0":                      "--priority 0",
		"enqueue hash --input-ref x --timeout -1s":                     "--timeout",
		"enqueue hash --input-ref x --label novalue":                   "NAME=VALUE",
		"enqueue hash --input-ref x --label a=1 --label a=2":           "twice",
		"enqueue hash --input-ref x --after a.b":                       "dependency",
		"enqueue hash --input-ref x --on-dependency-failure no":        "on_dependency_failure",
		"enqueue hash --input-ref x --on-conflict maybe":               "--on-conflict",
		"enqueue hash --input-ref x --key " + strings.Repeat("k", 257): "key of 257 bytes",

		"run":              "after --",
		"run hash -- true": "--jobs",
		"run hash --jobs " + file + " -- no-such-command":       "no-such-command",
		"run hash --jobs " + file + " --timeout 0s -- true":     "--timeout",
		"run hash --jobs " + file + " --server nats://x -- t":   "unknown flag",
		"run hash --jobs /no/such -- true":                      "/no/such",
		"run hash --jobs " + file + " --max-attempts 0 -- true": "max_attempts 0",

		"job get":                  "id",
		"job wait":                 "id",
		"job cancel":               "id",
		"job retry":                "id",
		"job output":               "one job",
		"job output a b":           "one job",
		"job watch a.b":            "invalid_job",
		"job outcomes":             "give one name of a feed",
		"job outcomes Bill":        "feed name",
		"job outcomes rm":          "give one name of a feed",
		"job outcomes b --limit 3": "unknown flag",
		"job wait x --timeout 0s":  "--timeout",
		"job ls --state nope":      `"nope"`,
		"job ls --limit 0":         "--limit",
		"job ls --after garbage":   `--after "garbage" is not a whole number from 0 on;`,
		"job ls --stage A":         "stage",
		"job ls --label x":         "NAME=VALUE",
		"job ls extra":             "ls",
		"job explain":              "id",

		"job cancel x --stage hash":                "ids or a filter, not both",
		"job cancel x --dry-run":                   "ids or a filter, not both",
		"job retry x --limit 1":                    "ids or a filter, not both",
		"job retry x --yes":                        "ids or a filter, not both",
		"job cancel --yes":                         "or a filter",
		"job cancel --limit 3 --yes":               "or a filter",
		"job cancel --stage hash":                  "--yes",
		"job retry --stage hash --json":            "--yes",
		"job cancel --stage= --yes":                "stage must not be empty",
		"job cancel --key= --yes":                  "--key is empty",
		"job cancel --state= --yes":                "--state is empty",
		"job cancel --label= --yes":                "NAME=VALUE",
		"job cancel --state nope --yes":            `"nope"`,
		"job cancel --state waiting,failed --yes":  "nothing to cancel in a job that is failed",
		"job retry --state cancelled --yes":        "nothing to retry in a job that is cancelled",
		"job retry --stage hash --yes --limit 0":   "--limit 0",
		"job retry --stage hash --yes --limit one": "--limit",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			r := weft(t, "", strings.Fields(call)...).want(t, app.ExitUsage, part)
			if strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "weft: ") || r.out != "" {
				t.Errorf("stderr is not one line, or stdout is not empty: %q %q", r.err, r.out)
			}
		})
	}
}

func TestNoServerEndsWithFive(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{
		"enqueue hash --input-ref x", "job get x", "job explain x", "job ls", "job cancel --stage hash --yes", "job wait x", "job output x", "job cancel x", "job retry x", "work hash -- true",
	} {
		began := time.Now()
		before, after, _ := strings.Cut(call, " --")
		args := append(strings.Fields(before), "--server", address)
		if after != "" {
			args = append(args, strings.Fields("--"+after)...)
		}
		r := weft(t, "", args...).want(t, app.ExitNoServer, address, "weft serve")
		if took := time.Since(began); strings.Count(r.err, "\n") != 1 || took > 5*time.Second {
			t.Errorf("%s: %q after %s", call, r.err, took)
		}
	}
}

func TestServeFailsWithOneLine(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	weft(t, "", "serve", "--data", t.TempDir(), "--listen", l.Addr().String()).want(t, app.ExitFailed, l.Addr().String(), "--listen")

	dir := t.TempDir()
	locked := embed.New(embed.Options{DataDir: dir})
	if err := locked.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locked.Stop(t.Context()) }()
	file := writeFile(t, filepath.Join(t.TempDir(), "jobs.jsonl"), `{"input_ref":"data:,x"}`)
	for _, args := range [][]string{{"serve", "--data", dir, "--listen", "127.0.0.1:-1"}, {"run", "s", "--jobs", file, "--data", dir, "--", "true"}} {
		weft(t, "", args...).want(t, app.ExitFailed, dir, fmt.Sprintf("process %d", os.Getpid()), "--data")
	}
}

func TestSettingsFromFileAndEnvironment(t *testing.T) {
	s := newSite(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "weft.yaml"), "server: "+s.url+"\n")
	weft(t, "", "enqueue", "a", "--input-ref", "x", "--config", file).want(t, app.ExitDone)
	t.Setenv("NATS_URL", s.url)
	id := weft(t, "", "enqueue", "a", "--input-ref", "x").want(t, app.ExitDone).lines()[0]
	weft(t, "", "job", "get", id, "--namespace", "other").want(t, app.ExitNotFound)
	t.Setenv("WEFT_NAMESPACE", "other")
	weft(t, "", "job", "get", id).want(t, app.ExitNotFound, id)
	t.Setenv("WEFT_NAMESPACE", "No Name")
	weft(t, "", "job", "get", id).want(t, app.ExitUsage, "namespace")
}

func TestEnqueueOne(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := s.weft(t, "enqueue", "a", "--input-ref", "x").want(t, app.ExitDone).lines()[0]
	r := s.weft(t, "enqueue", "a", "--input-ref", "data:,x", "--id", "mine", "--payload", `{"n": 1.0}`, "--in", "1h",
		"--max-attempts", "5", "--priority", "1", "--timeout", "90s", "--label", "a=1", "--label", "b=x=y", "--key", "k",
		"--after", before, "--on-dependency-failure", "cancel", "--input-revision", "7", "--json").want(t, app.ExitDone)
	var j job.Job
	if err := json.Unmarshal([]byte(r.out), &j); err != nil {
		t.Fatal(err)
	}
	if wait := time.Until(j.AvailableAt); wait < 58*time.Minute || wait > 61*time.Minute {
		t.Errorf("available in %s", wait)
	}
	got := fmt.Sprintln(j.ID, j.InputRevision, string(j.Payload), j.MaxAttempts, j.Priority, j.Timeout, j.Labels, j.Key, j.Dependencies, j.OnDependencyFailure)
	if want := fmt.Sprintln("mine", 7, `{"n": 1.0}`, 5, 1, "1m30s", "map[a:1 b:x=y]", "k", "["+before+"]", "cancel"); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	at := s.weft(t, "enqueue", "a", "--input-ref", "x", "--at", "2039-01-02T03:04:05.5Z").want(t, app.ExitDone).lines()[0]
	if want := time.Date(2039, 1, 2, 3, 4, 5, 5e8, time.UTC); !s.get(t, at).AvailableAt.Equal(want) {
		t.Errorf("available at %s", s.get(t, at).AvailableAt)
	}
	s.weft(t, "enqueue", "a", "--input-ref", "x", "--after", "nobody").want(t, app.ExitRefused, "missing_dependency")
}

func TestEnqueueTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 2 {
		s.weft(t, "enqueue", "a", "--input-ref", "x", "--id", "one").want(t, app.ExitDone)
	}
	s.weft(t, "enqueue", "a", "--input-ref", "y", "--id", "one").want(t, app.ExitRefused, "duplicate_job", "one")
}

func TestEnqueueOnConflict(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	add := func(more ...string) result {
		return s.weft(t, append([]string{"enqueue", "a", "--input-ref", "x", "--key", "k"}, more...)...)
	}
	first := add().want(t, app.ExitDone).lines()[0]
	if got := add("--on-conflict", "coalesce").want(t, app.ExitDone).lines()[0]; got != first {
		t.Errorf("coalesced into %s, want %s", got, first)
	}
	add("--on-conflict", "reject").want(t, app.ExitRefused, "duplicate_job", first)
	add().want(t, app.ExitDone)
	if j := s.get(t, first); j.State != job.StateCancelled {
		t.Errorf("the superseded job is %s", j.State)
	}
}

func TestJobCommandsOnAMissingJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, verb := range []string{"get", "wait", "output", "explain", "cancel", "retry"} {
		s.weft(t, "job", verb, "nobody").want(t, app.ExitNotFound, "missing_job", "nobody")
		s.weft(t, "job", verb, "no.body").want(t, app.ExitUsage, "invalid_job", "no.body")
	}
}

func TestOutputWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, id := range []string{"good", "bad"} {
		s.weft(t, "enqueue", id, "--id", id, "--input-ref", "x", "--max-attempts", "1").want(t, app.ExitDone)
	}
	good := spawn(t, s.args([]string{"job", "output", "good", "--wait"})...)
	bad := spawn(t, s.args([]string{"job", "output", "bad", "--wait"})...)
	spawn(t, s.args([]string{"work", "good", "--", "echo", "done"})...)
	spawn(t, s.args([]string{"work", "bad", "--", "false"})...)
	if r := good.wait().want(t, app.ExitDone); r.out != "done\n" {
		t.Errorf("output is %q", r.out)
	}
	bad.wait().want(t, app.ExitRefused, "terminal_job", "failed")
}

func TestJobCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	enqueue := func(args ...string) string {
		return s.weft(t, append([]string{"enqueue"}, args...)...).want(t, app.ExitDone).lines()[0]
	}
	good := enqueue("good", "--input-ref", "x", "--label", "team=a", "--key", "k")
	bad := enqueue("bad", "--input-ref", "x", "--max-attempts", "1")
	s.weft(t, "job", "output", good).want(t, app.ExitRefused, "not_available", "waiting")
	s.weft(t, "job", "retry", good).want(t, app.ExitRefused, "not_failed")
	s.weft(t, "job", "wait", good, "--timeout", "50ms").want(t, app.ExitFailed, "1 of 1 jobs have not ended")
	spawn(t, s.args([]string{"work", "good", "--", "sh", "-c", `printf 'a\000b'`})...)
	spawn(t, s.args([]string{"work", "bad", "--", "sh", "-c", "echo 'it broke' >&2; exit 3"})...)
	waited := s.weft(t, "job", "wait", good, bad).want(t, app.ExitFailed)
	if !strings.Contains(waited.out, good+" succeeded\n") || !strings.Contains(waited.out, bad+" failed\n") {
		t.Errorf("wait printed %q", waited.out)
	}
	if r := s.weft(t, "job", "output", good).want(t, app.ExitDone); r.out != "a\x00b" {
		t.Errorf("output is %q", r.out)
	}
	s.weft(t, "job", "output", bad).want(t, app.ExitRefused, "terminal_job", "it broke")
	s.weft(t, "job", "cancel", bad).want(t, app.ExitRefused, "terminal_job")

	raw, err := s.fabric.Raw(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.weft(t, "job", "get", "--json", good).want(t, app.ExitDone); r.out != string(raw)+"\n" {
		t.Errorf("get --json printed\n%swant\n%s", r.out, raw)
	}
	r := s.weft(t, "job", "get", bad, "nobody", good).want(t, app.ExitNotFound, "nobody")
	for _, part := range []string{"it broke", "succeeded", "attempt                1 of 1", "team=a"} {
		if !strings.Contains(r.out, part) {
			t.Errorf("get does not show %q:\n%s", part, r.out)
		}
	}
	for filter, want := range map[string]string{
		"--stage good": good, "--state failed": bad, "--state failed,cancelled": bad, "--key k": good, "--label team=a": good, "--limit 1": good,
	} {
		r := s.weft(t, append([]string{"job", "ls", "--json"}, strings.Fields(filter)...)...).want(t, app.ExitDone)
		var j job.Job
		if err := json.Unmarshal([]byte(r.out), &j); err != nil || (j.ID != want && filter != "--limit 1") {
			t.Errorf("ls %s printed %s, want only %s", filter, r.out, want)
		}
	}
	if r := s.weft(t, "job", "ls").want(t, app.ExitDone); len(r.lines()) != 3 || strings.Contains(r.out, "\x1b") {
		t.Errorf("ls printed\n%s", r.out)
	}
	if r := s.weft(t, "job", "retry", bad).want(t, app.ExitDone); r.out != bad+" retry_waiting\n" {
		t.Errorf("retry printed %q", r.out)
	}
	s.weft(t, "job", "wait", bad).want(t, app.ExitFailed)
	last := enqueue("idle", "--input-ref", "x")
	if r := s.weft(t, "job", "cancel", last, "--reason", "for the test").want(t, app.ExitDone); r.out != last+" cancelled\n" {
		t.Errorf("cancel printed %q", r.out)
	}
	if j := s.get(t, last); j.Reason != "for the test" {
		t.Errorf("the reason is %q", j.Reason)
	}
}
