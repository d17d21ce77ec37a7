// Package arch tests the architecture: which package may depend on which, and
// that each one says what it is. A rule that no longer bans anything real fails
// too, so that the list stays true.
package arch_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/weft-fabric/weft"

// pkg is what `go list -deps -json` tells of a package.
type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// list runs go list, which is the one authority on what depends on what.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Standard,GoFiles,Imports,Deps"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	var pkgs []pkg
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func deps(t *testing.T, path string) []string {
	t.Helper()
	return list(t, "./"+path)[0].Deps
}

func contains(deps []string, part string) string {
	for _, d := range deps {
		if strings.Contains(d, part) {
			return d
		}
	}
	return ""
}

func TestJobNeedsTheStandardLibraryAlone(t *testing.T) {
	for _, p := range list(t, "-deps", "./job") {
		if !p.Standard && p.ImportPath != module+"/job" {
			t.Errorf("job depends on %s", p.ImportPath)
		}
	}
}

// Each ban names the package, what must not be among its dependencies, and a
// package that does have it, which proves that the ban is about something.
func TestForbiddenDependencies(t *testing.T) {
	for _, ban := range []struct{ from, banned, proof string }{
		{"worker", "nats", "fabric"},
		{"worker", module + "/fabric", "internal/app"},
		{"worker/exec", "nats", "fabric"},
		{"kv", module + "/stream", "fabric"},
		{"stream", module + "/kv", "fabric"},
		{"fabric", module + "/worker", "internal/app"},
		{"internal/api", module + "/worker", "internal/app"},
		{"internal/api", module + "/config", "internal/app"},
		{"fabric", "nats.go/micro", "internal/api"},
		{"config", module + "/job", "kv"},
		{"config", module + "/fabric", "internal/app"},
		{"job", "net", "stream"},
		{"worker", "prometheus", "internal/metrics"},
		{"fabric", "prometheus", "internal/metrics"},
		{"tracing", "prometheus", "internal/metrics"},
		{"worker", "opentelemetry", "tracing"},
		{"worker/exec", "opentelemetry", "tracing"},
		{"fabric", "opentelemetry", "tracing"},
		{"tracing", "opentelemetry.io/otel/sdk", "internal/app"},
		{"tracing", "opentelemetry.io/otel/exporters", "internal/app"},
		{"fabric", module + "/resolver", "internal/app"},
		{"fabric", "minio-go", "internal/app"},
		{"worker", module + "/resolver", "internal/app"},
		{"resolver/web", module + "/fabric", "internal/app"},
		{"resolver/s3", module + "/fabric", "internal/app"},
	} {
		if d := contains(deps(t, ban.from), ban.banned); d != "" {
			t.Errorf("%s depends on %s", ban.from, d)
		}
		if contains(deps(t, ban.proof), ban.banned) == "" {
			t.Errorf("stale ban: %s does not depend on %s either", ban.proof, ban.banned)
		}
	}
}

func TestNobodyButTestsNeedsTheTestServers(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, server := range []string{"/natstest", "/s3test"} {
			if d := contains(p.Imports, server); d != "" {
				t.Errorf("%s imports %s outside its tests", p.ImportPath, d)
			}
		}
	}
}

func TestEachPackageSaysWhatItIs(t *testing.T) {
	for _, p := range list(t, "./...") {
		if len(p.GoFiles) > 0 && !documented(t, p) {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func documented(t *testing.T, p pkg) bool {
	t.Helper()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil {
			return true
		}
	}
	return false
}
