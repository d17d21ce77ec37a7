package natstest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Command is the path of the nats command, of the release that
// internal/tools/natscli/go.mod names. The go command keeps what it has built, so
// this takes long only where it has never been built.
func Command(tb testing.TB) string {
	tb.Helper()
	path, err := natsCommand()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

var natsCommand = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	build := exec.Command("go", "tool", "-n", "nats")
	build.Dir = filepath.Join(filepath.Dir(here), "..", "tools", "natscli")
	var why strings.Builder
	build.Stderr = &why
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("natstest: building the nats command: %w\n%s", err, why.String())
	}
	return strings.TrimSpace(string(out)), nil
})
