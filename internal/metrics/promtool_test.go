package metrics_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// promtoolModule pins the promtool that is built where none is to be had.
const promtoolModule = "../tools/promtool"

// promtool runs the tool and gives what it printed.
func promtool(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	path := findPromtool(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

var promtoolOnce = sync.OnceValues(getPromtool)

func findPromtool(t *testing.T) string {
	t.Helper()
	path, err := promtoolOnce()
	if err != nil {
		t.Fatalf("no promtool on PATH, and it could not be had: %v", err)
	}
	return path
}

// getPromtool gives the promtool on PATH, or the one that an earlier run has got, or
// gets one: from the system's packages, which takes seconds and installs nothing, or
// by building it, which takes minutes the first time.
func getPromtool() (string, error) {
	if path, err := exec.LookPath("promtool"); err == nil {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	path := filepath.Join(cache, "weft-tests", "promtool")
	if exec.Command(path, "--version").Run() == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(path), "promtool-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	made, err := fromPackages(work)
	if err != nil {
		if made, err = buildPromtool(work); err != nil {
			return "", err
		}
	}
	return path, os.Rename(made, path) // another run may do so at the same time
}

// fetching bounds one try to get it from the packages.
const fetching = time.Minute

// fromPackages unpacks Debian's package into work, without installing it. The lists
// of packages are fetched to there if the system has none.
func fromPackages(work string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetching)
	defer cancel()
	const script = `
apt-get -q download prometheus || {
	mkdir -p lists/partial cache/archives/partial
	own="-o Dir::State::lists=$PWD/lists -o Dir::Cache=$PWD/cache -o APT::Sandbox::User=root"
	apt-get -q $own update
	apt-get -q $own download prometheus
}
dpkg-deb -x prometheus_*.deb package
package/usr/bin/promtool --version`
	cmd := exec.CommandContext(ctx, "sh", "-euc", script)
	cmd.Dir, cmd.WaitDelay = work, time.Second
	return filepath.Join(work, "package", "usr", "bin", "promtool"), cmd.Run()
}

func buildPromtool(work string) (string, error) {
	path := filepath.Join(work, "promtool")
	// Without the ways of finding targets, which are most of it.
	cmd := exec.Command("go", "build", "-tags", "remove_all_sd", "-o", path, "github.com/prometheus/prometheus/cmd/promtool")
	cmd.Dir = promtoolModule
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false")
	out, err := cmd.CombinedOutput()
	if err != nil {
		_, _ = os.Stderr.Write(out)
	}
	return path, err
}
