package main

// These tests hold the files of deploy/ against the program.

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/weft-fabric/weft/config"
)

var deployed = filepath.Join("..", "..", "deploy")

func readDeployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func units(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(deployed, "systemd", "*.service"))
	if err != nil || len(found) < 3 {
		t.Fatalf("units: %v, %v", found, err)
	}
	return found
}

// entries are the values of a unit by name. No unit here goes on after a line's end.
func entries(t *testing.T, unit string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			values[name] = value
		}
	}
	return values
}

func TestDeployedUnitsCallTheProgram(t *testing.T) {
	t.Parallel()
	for _, unit := range units(t) {
		name := filepath.Base(unit)
		values := entries(t, unit)
		words := strings.Fields(strings.ReplaceAll(values["ExecStart"], "%i", "hash"))
		if len(words) < 2 || words[0] != "/usr/local/bin/weft" {
			t.Fatalf("%s starts %q", name, words)
		}
		if err := parseCall(words[1:]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for entry, want := range map[string]string{
			"KillSignal": "SIGTERM", "Restart": "always", "RestartPreventExitStatus": "2",
			"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
		} {
			if got, ok := values[entry]; !ok || got != want {
				t.Errorf("%s has %s=%s, want %s", name, entry, got, want)
			}
		}
	}
	if got := entries(t, filepath.Join(deployed, "systemd", "weft-work@.service"))["KillMode"]; got != "mixed" {
		t.Errorf("KillMode=%s sends the commands of jobs the SIGTERM that is the runner's", got)
	}
	verified(t)
}

// A stop has to leave the time for the drain, the end of the commands and that of
// the process.
func TestDeployedStopIsLongerThanTheDrain(t *testing.T) {
	t.Parallel()
	c := deployedConfig(t, "drain")
	const afterDrain = 20 * time.Second // 5 s from SIGTERM to SIGKILL, 15 s for the rest
	for _, unit := range units(t) {
		if !strings.Contains(unit, "work@") {
			continue
		}
		stop, err := time.ParseDuration(entries(t, unit)["TimeoutStopSec"] + "s")
		if err != nil || stop <= c.Drain+afterDrain {
			t.Errorf("TimeoutStopSec is %s, %v; drain is %s", stop, err, c.Drain)
		}
	}
}

// deployedConfig reads weft.yaml, with those settings bound that a flag may give.
func deployedConfig(t *testing.T, names ...string) config.Config {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	loader := config.NewLoader()
	loader.LookupEnv = func(string) (string, bool) { return "", false }
	loader.Bind(flags, names...)
	if err := flags.Parse([]string{"--config", filepath.Join(deployed, "weft.yaml")}); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Load(flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The example has every default as it is, but for what it says of the log and of the
// server.
func TestDeployedConfigIsTheDefault(t *testing.T) {
	t.Parallel()
	c, want := deployedConfig(t, "lease"), config.Default()
	want.Log = config.Log{Level: "info", Format: "json"}
	want.Connection.Server = "nats://127.0.0.1:4222"
	if c != want {
		t.Errorf("it is\n%+v, want\n%+v", c, want)
	}
	// What is a comment would be read too.
	commented := regexp.MustCompile(`(?m)^# ?((?:tls|  ca|replicas|concurrency|nats_config):.*)$`)
	all := commented.ReplaceAllString(readDeployed(t, "weft.yaml"), "$1")
	if n := len(commented.FindAllString(readDeployed(t, "weft.yaml"), -1)); n != 5 {
		t.Errorf("%d settings are comments", n)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "weft.yaml"), all)
	weft(t, "", "auth", "roles", "--any-stage", "--config", file).want(t, 0)
}

func TestDeployedImage(t *testing.T) {
	t.Parallel()
	text := readDeployed(t, "Dockerfile")
	var entry, command []string
	for name, into := range map[string]*[]string{"ENTRYPOINT": &entry, "CMD": &command} {
		found := regexp.MustCompile(`(?m)^` + name + ` (\[.*\])$`).FindStringSubmatch(text)
		if found == nil || json.Unmarshal([]byte(found[1]), into) != nil {
			t.Fatalf("no %s that can be read", name)
		}
	}
	if !slices.Equal(entry, []string{"/weft"}) {
		t.Errorf("the entry is %q", entry)
	}
	if err := parseCall(command); err != nil {
		t.Errorf("%q: %v", command, err)
	}
	runner := regexp.MustCompile(`(?m)^#   ENTRYPOINT (\[.*\])$`).FindStringSubmatch(text)
	var words []string
	if runner == nil || json.Unmarshal([]byte(runner[1]), &words) != nil || parseCall(words[1:]) != nil {
		t.Errorf("the runner's entry is %q", runner)
	}
	for _, line := range []string{"USER 65532:65532", "STOPSIGNAL SIGTERM", "FROM scratch"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	for _, part := range []string{"CGO_ENABLED=0", "-X main.version=${VERSION}", " ./cmd/weft"} {
		if !strings.Contains(text, part) {
			t.Errorf("the build has no %s", part)
		}
	}
	gomod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(gomod))[1]; !strings.Contains(text, "FROM golang:"+language+"-") {
		t.Errorf("the image is not built with Go %s", language)
	}
	wantImageSource(t)
}

// wantImageSource fails unless the image is built of every package that the program
// is made of.
func wantImageSource(t *testing.T) {
	t.Helper()
	ignore := strings.Fields(readDeployed(t, "Dockerfile.dockerignore"))
	list, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(list)) {
		folder, _, _ := strings.Cut(strings.TrimPrefix(path, "github.com/weft-fabric/weft/"), "/")
		if !slices.Contains(ignore, "!"+folder) {
			t.Errorf("the image is built without %s", folder)
		}
	}
}

// verified is what systemd itself thinks of the units, where there is a systemd.
func verified(t *testing.T) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args, dir := []string{"verify", "--man=no"}, t.TempDir()
	for _, unit := range units(t) {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Replace(filepath.Base(unit), "@.", "@hash.", 1)
		args = append(args, writeFile(t, filepath.Join(dir, name), strings.ReplaceAll(string(text), "/usr/local/bin/weft", self)))
	}
	if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
