package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-fabric/weft/internal/docs"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// root is the repository.
const root = "../.."

// fewest is how many samples may say that they are not run.
const fewest = 6

func pages(t *testing.T) []docs.Page {
	t.Helper()
	all, err := docs.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wrong reports a sample with its place, and what its writer can do.
func wrong(t *testing.T, b docs.Block, err error) {
	t.Helper()
	t.Errorf("\n%s: this sample is wrong: %v\nMend it. If no test can run it, put <!-- not run: WHY --> right before it; the package comment of internal/docs has the rules.", b.At(), err)
}

// TestEachSampleOfThePagesIsTrue does what the pages say, and compares what they
// show.
func TestEachSampleOfThePagesIsTrue(t *testing.T) {
	bin := programs(t)
	for _, page := range pages(t) {
		if page.Name != "README.md" && !strings.HasPrefix(page.Name, "docs/") {
			continue // tests of their own hold the examples and the deployment
		}
		t.Run(page.Name, func(t *testing.T) {
			t.Parallel()
			(&visit{t: t, page: page, bin: bin, ports: map[string]string{}}).all()
		})
	}
}

// programs builds weft and nats, once for all pages.
func programs(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/weft")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building weft: %v\n%s", err, out)
	}
	if err := os.Symlink(natstest.Command(t), filepath.Join(bin, "nats")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// visit is a reader who does what a page says.
type visit struct {
	t    *testing.T
	page docs.Page
	bin  string

	ports    map[string]string // the free one for each that the page names
	terminal *terminal         // from the first sample that needs one
	own      string            // the URL of the page's server
	section  string            // the section that NATS_URL is for
	last     output            // of the block before, if Follows may compare it
	ended    bool              // the block before has ended, and last is all of it
}

// all goes through the page. It stops at the first sample of a shell that fails,
// since others build on it.
func (v *visit) all() {
	for _, b := range v.page.Blocks {
		if err := v.block(b); err != nil {
			wrong(v.t, b, err)
			if isShell(b) {
				return
			}
		}
	}
	if v.terminal == nil {
		return
	}
	v.terminal.say("own=")
	if err := v.terminal.close(); err != nil {
		v.t.Errorf("\n%s: %v", v.page.Name, err)
	}
}

func isShell(b docs.Block) bool { return b.Lang == "sh" || isSession(b) }

// isSession tells whether a block shows commands with what they write.
func isSession(b docs.Block) bool { return isText(b) && strings.HasPrefix(b.Body, "$ ") }
func isText(b docs.Block) bool    { return b.Lang == "text" || b.Lang == "" }

func (v *visit) block(b docs.Block) error {
	shown := v.ended && b.Follows
	v.ended = false
	switch {
	case b.Mark == "not run":
		return nil // TestFewSamplesAreNotRun counts them
	case b.Mark == "command":
		return runByCI(b.Why)
	case b.Mark == "run by":
		return isTest(b.Why)
	case b.Mark == "file":
		return v.file(b)
	case b.Mark != "":
		return fmt.Errorf("the comment %q before it is none of not run, run by, command and file", b.Mark)
	case b.Lang == "sh":
		return v.shell(b)
	case isSession(b):
		return v.talk(b)
	case b.Lang == "json" && shown, isText(b) && shown:
		return compare(b.Lang, b.Body, v.last.stdout())
	case b.Lang == "json":
		return checkJSON([]byte(b.Body))
	case b.Lang == "go":
		return checkGo(b.Body)
	case isText(b):
		return nil // a picture
	default:
		return fmt.Errorf("nothing is known of the language %q; name it text, or put <!-- file: NAME --> before a file that later samples use", b.Lang)
	}
}

// runByCI checks that one of the README's two commands is run as it stands there.
func runByCI(name string) error {
	text, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err == nil && !strings.Contains(string(text), "readme-command "+name+"\n") {
		err = fmt.Errorf(".ci/run does not run the command %q", name)
	}
	return err
}

// isTest checks that a test of the name is there. It has to do what the sample says.
func isTest(name string) error {
	files, err := filepath.Glob(filepath.Join(root, "*", "*", "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("there is no test %q below cmd or internal", name))
}

// file puts a block into the page's folder.
func (v *visit) file(b docs.Block) error {
	if !filepath.IsLocal(b.Why) {
		return fmt.Errorf("%q is no name of a file in the page's folder", b.Why)
	}
	v.open()
	name := filepath.Join(v.terminal.dir, b.Why)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(b.Body), 0o700)
}

// open opens the page's terminal, with a server that the page has not to start.
func (v *visit) open() {
	v.t.Helper()
	if v.terminal != nil {
		return
	}
	v.terminal = openTerminal(v.t, v.bin)
	o, err := v.terminal.run("weft serve --data .server & own=$!\n")
	if err == nil {
		v.own, err = v.terminal.waitForURL(o)
	}
	if err != nil {
		v.t.Fatalf("%s: the test's own server: %v", v.page.Name, err)
	}
	v.use(v.own)
}

// use has the shell talk to a server from here on.
func (v *visit) use(url string) { v.terminal.say("export NATS_URL=" + url) }

// enter begins a section: what the last one has started ends, and NATS_URL is the
// page's own server.
func (v *visit) enter(section string) error {
	v.open()
	if v.section == section {
		return nil
	}
	v.section = section
	v.use(v.own)
	return v.terminal.close()
}

var port = regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`)

// elsewhere puts a free port in the place of each that a script names.
func (v *visit) elsewhere(script string) string {
	return port.ReplaceAllStringFunc(script, func(address string) string {
		if v.ports[address] == "" {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				v.t.Fatal(err)
			}
			v.ports[address] = listener.Addr().String()
			_ = listener.Close() // nothing was sent
		}
		return v.ports[address]
	})
}

// staying are the commands that go on until they are interrupted.
var staying = regexp.MustCompile(`^(\w+=\S+ )*(bin/)?weft (serve|work|keep|job watch|job outcomes) [^&]*[^&\s]$`)

func stays(script string) bool {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(script, "\\\n", " ")), "\n")
	last := lines[len(lines)-1]
	ends := strings.Contains(last, " outcomes ls") || strings.Contains(last, " outcomes rm ")
	return staying.MatchString(last) && !ends
}

var serves = regexp.MustCompile(`(?m)^(\w+=\S+ )*(bin/)?weft serve `)

// shell runs a block of sh.
func (v *visit) shell(b docs.Block) error {
	if err := v.enter(b.Section); err != nil {
		return err
	}
	script := v.elsewhere(forNow(strings.TrimRight(b.Body, "\n")))
	stay := stays(script)
	if stay {
		script += " &\nsettled"
	}
	o, err := v.terminal.run(script + "\n")
	if err != nil {
		return err
	}
	if serves.MatchString(script) {
		url, err := v.terminal.waitForURL(o)
		if err != nil {
			return err
		}
		v.use(url)
	}
	v.last, v.ended = o, !stay
	return nil
}

// talk runs the commands of a session, and compares what each writes.
func (v *visit) talk(b docs.Block) error {
	if err := v.enter(b.Section); err != nil {
		return err
	}
	for _, part := range strings.Split("\n"+b.Body, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		o, err := v.terminal.run("{ " + command + "\n} 2>&1 || true\n")
		if err == nil {
			err = compare("text", want, o.stdout())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

// checkJSON takes a block that no command has written.
func checkJSON(data []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	if members["state"] != nil {
		_, err := job.Decode(data)
		return err
	}
	if members["input_ref"] != nil {
		return json.Unmarshal(data, new(job.Spec))
	}
	return nil
}

// TestFewSamplesAreNotRun has each of them say why, and lets them not become many.
func TestFewSamplesAreNotRun(t *testing.T) {
	var excused []string
	for _, page := range pages(t) {
		for _, b := range page.Blocks {
			if b.Mark != "not run" {
				continue
			}
			excused = append(excused, b.At()+": "+b.Why)
			if len(strings.Fields(b.Why)) < 3 {
				t.Errorf("%s: %q is no reason not to run a sample; say in a few words what it would need", b.At(), b.Why)
			}
		}
	}
	if len(excused) > fewest {
		t.Errorf("%d samples are not run, which should be %d at most:\n%s", len(excused), fewest, strings.Join(excused, "\n"))
	}
}
