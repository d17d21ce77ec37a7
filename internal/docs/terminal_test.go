package docs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a sample.
const patience = 60 * time.Second

// prelude is what a page's shell knows more than a reader's. The page's folder
// stands for a clone, and a build there would compile the whole module once more,
// since the build cache knows a package by its folder. So go works in the
// repository, and what it builds comes into the page's bin/; it finds the weft that
// was built for all pages there, which spares linking it once more.
//
// settled waits until what was started last has a connection, by when it has read
// its flags and listens to signals, or is over. Without /proc it waits for nothing,
// and less is found out.
const prelude = `
go() { (dir=$PWD; mkdir -p bin; cp "$(type -P weft)" bin/; cd "$REPOSITORY" && command go "${@/#bin\//$dir/bin/}"); }
settled() {
	[ -d /proc/$$/fd ] || return 0
	local pid=$(jobs -p | tail -n 1)
	until ! kill -0 $pid 2>/dev/null || ls -l /proc/$pid/fd 2>/dev/null | grep -q socket:; do sleep 0.02; done
}`

// closing ends what a section has started and that runs still, the latest first, but
// for the page's own server. What
// was over by then has left its exit code. 143 is that of a process that the signal
// met before it listened to signals.
const closing = `
for pid in $(jobs -p | tac); do
	[ $pid != "$own" ] || continue
	kill $pid 2>/dev/null || true
	wait $pid || { code=$?; [ $code = 143 ] || { echo "one exits with $code; its words are below"; exit $code; }; }
done
`

// terminal is the shell of one page.
type terminal struct {
	t     *testing.T
	dir   string
	in    io.WriteCloser
	done  chan string // a line for each block that went well; closed with the shell
	count int
}

// output is what a block has written, to be read while it runs too.
type output struct{ out, err string }

func (o output) stdout() string { return read(o.out) }
func (o output) String() string {
	return fmt.Sprintf("stdout: %s\nstderr: %s", strings.TrimSpace(read(o.out)), strings.TrimSpace(read(o.err)))
}

func read(path string) string {
	text, _ := os.ReadFile(path) // what is not there yet is empty
	return string(text)
}

// openTerminal starts the shell. bin is where weft and nats are.
func openTerminal(t *testing.T, bin string) *terminal {
	t.Helper()
	term := &terminal{t: t, dir: t.TempDir(), done: make(chan string)}
	if err := os.CopyFS(term.dir, os.DirFS(filepath.Join("testdata", "page"))); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("bash", "-euo", "pipefail")
	shell.Dir, shell.Env = term.dir, environment(t, bin)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	term.in = in
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			term.done <- lines.Text()
		}
		_ = shell.Wait() // the test has been told by the line that did not come
		close(term.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) // normally nobody is left
		for range term.done {                                 // an end that nobody waited for
		}
		<-ended
	})
	term.say(prelude)
	return term
}

// environment is that of a reader who has set nothing, but for the go command.
func environment(t *testing.T, bin string) []string {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := exec.Command("go", "env", "GOENV").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "NATS_") || strings.HasPrefix(pair, "WEFT_")
	})
	return append(env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "XDG_CONFIG_HOME="+t.TempDir(),
		"GOENV="+strings.TrimSpace(string(settings)), "REPOSITORY="+repository, "WEFT_LISTEN=127.0.0.1:-1")
}

// say gives the shell a line, unless it is gone; then the next block finds that out.
func (term *terminal) say(line string) { _, _ = io.WriteString(term.in, line+"\n") }

// run runs a script to its end. The error says how it went wrong, in the words of a
// page's writer.
func (term *terminal) run(script string) (output, error) {
	term.t.Helper()
	term.count++
	name := filepath.Join(term.t.TempDir(), fmt.Sprint("block-", term.count))
	o := output{name + ".out", name + ".err"}
	if err := os.WriteFile(name, []byte(script), 0o600); err != nil {
		term.t.Fatal(err)
	}
	term.say(fmt.Sprintf(". '%s' </dev/null >'%s' 2>'%s'\necho done", name, o.out, o.err))
	select {
	case _, ok := <-term.done:
		if !ok {
			return o, fmt.Errorf("it fails\n%s", o)
		}
		return o, nil
	case <-time.After(patience):
		return o, fmt.Errorf("it does not end in %s; if it is to stay, make it the last line of a block\n%s", patience, o)
	}
}

// waitForURL waits until a weft serve that the block has started says where it is.
func (term *terminal) waitForURL(o output) (string, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		for line := range strings.Lines(o.stdout()) {
			if strings.Contains(line, "://") && strings.HasSuffix(line, "\n") {
				return strings.TrimSpace(line), nil
			}
		}
	}
	return "", fmt.Errorf("its weft serve does not serve\n%s", o)
}

// close ends what a section has left running.
func (term *terminal) close() error {
	if o, err := term.run(closing); err != nil {
		return fmt.Errorf("what the section before this has started has failed: %w", errors.Join(err, term.stderrs(o)))
	}
	return nil
}

// stderrs is what all blocks have written there, since a process that stayed wrote
// where its block did.
func (term *terminal) stderrs(last output) error {
	var all strings.Builder
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(last.err)), "*", "block-*.err"))
	for _, path := range others {
		all.WriteString(read(path))
	}
	return errors.New(all.String())
}
