package main

// These tests prove that weft works with the users that it prints, role by role,
// and that it says at once what a role may not.

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/embed"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

const rolePassword = "open-sesame"

// guarded is a server with the roles that weft auth roles prints.
type guarded struct {
	url, config string
}

// printed writes what weft auth roles prints to a file. The passwords are put where
// the server's environment would have them.
func printed(t *testing.T, args ...string) (path string) {
	t.Helper()
	text := weft(t, "", append([]string{"auth", "roles"}, args...)...).want(t, app.ExitDone).out
	for _, r := range roles.All {
		text = strings.ReplaceAll(text, "password: $"+roles.PasswordVariable("weft", r)+"\n", "password: "+rolePassword+"\n")
	}
	return writeFile(t, filepath.Join(t.TempDir(), "roles.conf"), text)
}

func newGuarded(t *testing.T, args ...string) *guarded {
	t.Helper()
	g := &guarded{config: printed(t, args...)}
	server := embed.New(embed.Options{Listen: true, Port: -1, NATSConfig: g.config, DataDir: t.TempDir()})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g.url = server.ClientURL()
	return g
}

// flags are what a role's user gives.
func (g *guarded) flags(r roles.Role) []string {
	return []string{"--server", g.url, "--user", "weft-" + string(r), "--password", rolePassword, "--role", string(r)}
}

// as calls the program as a role.
func (g *guarded) as(t *testing.T, r roles.Role, args ...string) result {
	t.Helper()
	return weft(t, "", g.args(r, args)...)
}

func (g *guarded) args(r roles.Role, args []string) []string {
	for i, arg := range args {
		if arg == "--" {
			return append(append(append([]string{}, args[:i]...), g.flags(r)...), args[i:]...)
		}
	}
	return append(append([]string{}, args...), g.flags(r)...)
}

func (g *guarded) state(t *testing.T, id string) job.State {
	t.Helper()
	var j struct {
		State job.State `json:"state"`
	}
	r := g.as(t, roles.Viewer, "job", "get", id, "--json").want(t, app.ExitDone)
	if err := json.Unmarshal([]byte(r.out), &j); err != nil {
		t.Fatal(err)
	}
	return j.State
}

func TestRolesWorkTogether(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "--stage", "hash")
	g.as(t, roles.Backend, "enqueue", "hash", "--input-ref", "data:,x", "--id", "one").want(t, app.ExitDone)
	jobs := writeFile(t, filepath.Join(t.TempDir(), "jobs.jsonl"), `{"id":"two","input_ref":"data:,y"}`+"\n")
	g.as(t, roles.Backend, "enqueue", "hash", "--jobs", jobs).want(t, app.ExitDone)
	g.as(t, roles.Backend, "enqueue", "hash", "--input-ref", "data:,x", "--id", "bad", "--label", "fail=yes", "--max-attempts", "1").want(t, app.ExitDone)
	g.as(t, roles.Backend, "enqueue", "hash", "--input-ref", "data:,x", "--id", "three", "--after", "one").want(t, app.ExitDone)
	g.as(t, roles.Operator, "stage", "pause", "hash", "--reason", "a look").want(t, app.ExitDone)
	g.as(t, roles.Operator, "stage", "resume", "hash").want(t, app.ExitDone)
	g.as(t, roles.Operator, "stage", "set", "hash", "--concurrency", "4").want(t, app.ExitDone)
	keeper := spawn(t, g.args(roles.Operator, []string{"keep"})...)
	runner := spawn(t, g.args(roles.Runner, []string{"work", "hash", "--id", "rn", "--", "sh", "-c", `test "$WEFT_JOB_ID" != bad || exit 65; head -c 20000 /dev/zero`})...)
	g.as(t, roles.Backend, "job", "wait", "one", "two", "three", "--timeout", "30s").want(t, app.ExitDone)
	g.as(t, roles.Backend, "job", "wait", "bad", "--timeout", "30s").want(t, app.ExitFailed)
	if out := g.as(t, roles.Viewer, "job", "output", "one").want(t, app.ExitDone).out; len(out) != 20000 {
		t.Errorf("the viewer reads %d bytes of output", len(out))
	}
	g.as(t, roles.Operator, "job", "retry", "bad").want(t, app.ExitDone)
	for _, read := range [][]string{
		{"job", "ls"}, {"stage", "ls"}, {"stage", "info", "hash"}, {"doctor"}, {"job", "get", "one"},
	} {
		g.as(t, roles.Viewer, read...).want(t, app.ExitDone)
	}
	poll(t, "the viewer sees the worker", func() bool {
		return strings.Contains(g.as(t, roles.Viewer, "worker", "ls").out, "rn")
	})
	g.as(t, roles.Operator, "doctor", "--repair").want(t, app.ExitDone)
	for name, p := range map[string]*process{"work": runner, "keep": keeper} {
		p.signal(syscall.SIGTERM)
		if r := p.wait(); r.code != app.ExitDone || strings.Contains(r.err, "permission") {
			t.Errorf("weft %s ended with %d:\n%s", name, r.code, r.err)
		}
	}
}

// What a role may not is said in one line, with the subject and who may, at once,
// and nothing is left half done.
func TestRefusedPermissionIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "--stage", "hash")
	g.as(t, roles.Backend, "enqueue", "hash", "--input-ref", "data:,x", "--id", "one").want(t, app.ExitDone)
	const soon = 8 * time.Second // what is not refused at once takes ten
	for _, c := range []struct {
		role    roles.Role
		args    []string
		subject string
		may     string
	}{
		{roles.Viewer, []string{"enqueue", "hash", "--input-ref", "data:,x", "--id", "no"}, "weft.work.hash.may.enqueue", "backend or operator"},
		{roles.Runner, []string{"enqueue", "hash", "--input-ref", "data:,x", "--id", "no"}, "weft.work.hash.may.enqueue", "backend or operator"},
		{roles.Backend, []string{"enqueue", "another", "--input-ref", "data:,x", "--id", "no"}, "weft.work.another.may.enqueue", "role backend"},
		{roles.Viewer, []string{"job", "cancel", "one", "other"}, "weft.may.cancel", "backend or operator"},
		{roles.Runner, []string{"job", "cancel", "one"}, "weft.may.cancel", "backend or operator"},
		{roles.Backend, []string{"job", "retry", "one"}, "weft.may.operate", "operator"},
		{roles.Viewer, []string{"job", "outcomes", "billing"}, "weft.may.land", "backend or operator"},
		{roles.Viewer, []string{"job", "outcomes", "rm", "billing"}, "weft.may.land", "backend or operator"},
		{roles.Runner, []string{"job", "outcomes", "billing"}, "weft.may.land", "backend or operator"},
		{roles.Backend, []string{"stage", "pause", "hash"}, "weft.may.operate", "operator"},
		{roles.Runner, []string{"stage", "set", "hash", "--lease", "5s"}, "weft.may.operate", "operator"},
		{roles.Viewer, []string{"doctor", "--repair"}, "weft.may.operate", "operator"},
		{roles.Runner, []string{"work", "hash", "--keeper", "--", "cat"}, "$KV.weft.leader.keeper", "or give --keeper=false; role operator"},
		{roles.Viewer, []string{"work", "hash", "--keeper=false", "--", "cat"}, "weft.signal.", "runner or operator"},
		{roles.Backend, []string{"work", "hash", "--keeper=false", "--", "cat"}, "weft.signal.", "runner or operator"},
		{roles.Runner, []string{"work", "another", "--", "cat"}, "another", "operator"},
		{roles.Viewer, []string{"keep"}, "$KV.weft.leader.keeper; role ", "operator"},
		{roles.Runner, []string{"keep"}, "$KV.weft.leader.keeper; role ", "operator"},
		{roles.Backend, []string{"cron", "add", "nightly", "hash", "--schedule", "@daily", "--input-ref", "data:,x"}, "weft.may.operate; role ", "operator"},
		{roles.Viewer, []string{"cron", "rm", "nightly"}, "weft.may.operate; role ", "operator"},
	} {
		began := time.Now()
		r := g.as(t, c.role, c.args...).want(t, app.ExitRefused, "weft: permission refused", c.subject, c.may+" may", "weft auth roles")
		if took := time.Since(began); took > soon {
			t.Errorf("%s %v: said after %s", c.role, c.args, took)
		}
		if n := strings.Count(r.err, "weft: permission refused"); n != 1 {
			t.Errorf("%s %v: said %d times:\n%s", c.role, c.args, n, r.err)
		}
	}
	if state := g.state(t, "one"); state != job.StateWaiting {
		t.Errorf("the job is %s", state)
	}
	g.as(t, roles.Viewer, "job", "get", "no").want(t, app.ExitNotFound)
	if out := g.as(t, roles.Viewer, "stage", "info", "hash").out; strings.Contains(out, "drift") || !strings.Contains(out, "30s") {
		t.Errorf("the stage has changed:\n%s", out)
	}
}

// Answers come where the role may listen, also by a context's own inbox prefix.
func TestInboxOfARole(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "--stage", "hash")
	who := []string{"--user", "weft-backend", "--password", rolePassword}
	list := append([]string{"job", "ls", "--server", g.url}, who...)
	weft(t, "", list...).want(t, app.ExitRefused, "_INBOX.", "--role", "--inbox-prefix")
	weft(t, "", append(list, "--inbox-prefix", "_INBOX_weft_viewer")...).want(t, app.ExitRefused, "_INBOX_weft_viewer")
	weft(t, "", append(list, "--inbox-prefix", "_INBOX_weft_backend")...).want(t, app.ExitDone)
	weft(t, "", append(list, "--role", "backend")...).want(t, app.ExitDone)
	named := writeFile(t, filepath.Join(t.TempDir(), "backend.json"),
		`{"url":"`+g.url+`","user":"weft-backend","password":"`+rolePassword+`","inbox_prefix":"_INBOX_weft_backend"}`)
	weft(t, "", "job", "ls", "--context", named).want(t, app.ExitDone)
	weft(t, "", "job", "ls", "--context", named, "--role", "runner").want(t, app.ExitRefused, "_INBOX_weft_runner")
}

func TestServeWithRoles(t *testing.T) {
	t.Parallel()
	config := printed(t, "--any-stage", "--runners", "api")
	p := spawn(t, "serve", "--nats-config", config, "--data", t.TempDir(), "--listen", "127.0.0.1:-1",
		"--user", "weft-operator", "--password", rolePassword, "--role", "operator")
	g := &guarded{url: p.url()}
	g.as(t, roles.Backend, "enqueue", "hash", "--input-ref", "data:,x", "--id", "one").want(t, app.ExitDone)
	g.as(t, roles.Runner, "job", "ls").want(t, app.ExitRefused, "permission refused", "$JS.API.STREAM.INFO.KV_weft")
	p.signal(syscall.SIGTERM)
	if r := p.wait(); r.code != app.ExitDone || strings.Contains(r.err, "permission") {
		t.Errorf("weft serve ended with %d:\n%s", r.code, r.err)
	}
	if !strings.Contains(p.err.String(), "synced to disk every 10s:") { // the file does not say
		t.Errorf("of the disk it says\n%s", p.err.String())
	}
}

func TestAuthRolesRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--stage", "A B"}, {"--any-stage", "--namespace", "No"}, {"--any-stage", "--runners", "all"}, {"--any-stage", "--user-prefix", `a"b`},
		{"--any-stage", "more"}, {}, {"--any-stage", "--stage", "hash"},
	} {
		weft(t, "", append([]string{"auth", "roles"}, args...)...).want(t, app.ExitUsage)
	}
}
