package embed_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/embed"
)

const patience = 20 * time.Second

// start starts a server and stops it at the end of the test, unless the test did.
func start(t *testing.T, o embed.Options) *embed.Server {
	t.Helper()
	s := embed.New(o)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *embed.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func connect(t *testing.T, url string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// store writes a message, and count tells how many there are.
func store(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestTemporaryServerLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := start(t, embed.Options{})
	if s.ClientURL() != "" {
		t.Errorf("the server listens at %s", s.ClientURL())
	}
	store(t, connect(t, "", s.InProcess()))
	stop(t, s)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestDataOutlivesTheServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "here")
	s := start(t, embed.Options{DataDir: dir})
	store(t, connect(t, "", s.InProcess()))
	stop(t, s)
	again := start(t, embed.Options{DataDir: dir})
	if n := count(t, connect(t, "", again.InProcess())); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
}

func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	s := start(t, embed.Options{Listen: true, Port: -1})
	if !strings.HasPrefix(s.ClientURL(), "nats://127.0.0.1:") {
		t.Errorf("URL is %s", s.ClientURL())
	}
	store(t, connect(t, s.ClientURL()))
}

func TestUserIsAskedFor(t *testing.T) {
	t.Parallel()
	s := start(t, embed.Options{Listen: true, Port: -1, User: "u", Password: "p"})
	if _, err := nats.Connect(s.ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a user: %v", err)
	}
	connect(t, s.ClientURL(), nats.UserInfo("u", "p"))
}

func TestLockedDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, embed.Options{DataDir: dir})
	err := embed.New(embed.Options{DataDir: dir}).Start(t.Context())
	if !errors.Is(err, embed.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	for _, part := range []string{dir, fmt.Sprintf("process %d", os.Getpid()), "--data"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := t.TempDir()
	err = embed.New(embed.Options{DataDir: dir, Listen: true, Port: listener.Addr().(*net.TCPAddr).Port}).Start(t.Context())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("got %v", err)
	}
	start(t, embed.Options{DataDir: dir}) // a start that failed holds no lock
}

func TestDirectoryThatCannotBeMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := embed.New(embed.Options{DataDir: filepath.Join(file, "below")}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestNATSConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: 127.0.0.1:-1\nmax_payload: 4096\njetstream { store_dir: %q, sync_interval: 3s }\n", filepath.Join(dir, "store"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, embed.Options{NATSConfig: file, Listen: true, DefaultDir: filepath.Join(dir, "other")})
	js := connect(t, s.ClientURL())
	if n := js.Conn().MaxPayload(); n != 4096 {
		t.Errorf("max payload is %d", n)
	}
	if want := filepath.Join(dir, "store"); s.DataDir() != want {
		t.Errorf("data is in %s, want %s", s.DataDir(), want)
	}
	if every, always := s.Sync(); every != 3*time.Second || always {
		t.Errorf("syncs every %s, always %t", every, always)
	}
}

func TestDefaultDirIsForWhenNobodySays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, embed.Options{DefaultDir: dir})
	if s.DataDir() != dir {
		t.Errorf("data is in %s, want %s", s.DataDir(), dir)
	}
}

// A nats-server file wins over the default interval only if it names one.
func TestDefaultSyncIsForWhenNobodySays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"max_payload: 4096":                   7 * time.Second,
		"jetstream { sync_interval: 120s }":   2 * time.Minute,
		"jetstream { sync_interval: always }": 0,
	} {
		file := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := start(t, embed.Options{NATSConfig: file, DefaultSync: 7 * time.Second})
		every, always := s.Sync()
		if want == 0 && !always || want != 0 && (every != want || always) {
			t.Errorf("%s: syncs every %s, always %t", text, every, always)
		}
	}
}

func TestBrokenNATSConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte("listen: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + ".missing"} {
		if err := embed.New(embed.Options{NATSConfig: path}).Start(t.Context()); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
}

func TestSyncSettings(t *testing.T) {
	t.Parallel()
	s := start(t, embed.Options{SyncAlways: true})
	if _, always := s.Sync(); !always {
		t.Error("does not sync always")
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := embed.New(embed.Options{}).Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestSurvivesKill starts this test binary again as a server, kills it, and
// opens its directory.
func TestSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestHelperServer$")
	child.Env = append(os.Environ(), "EMBED_TEST_DIR="+dir)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	store(t, connect(t, awaitFile(t, filepath.Join(dir, "url"))))
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	s := start(t, embed.Options{DataDir: dir})
	if n := count(t, connect(t, "", s.InProcess())); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
}

// TestHelperServer is the server of TestSurvivesKill, and no test by itself.
func TestHelperServer(t *testing.T) {
	dir := os.Getenv("EMBED_TEST_DIR")
	if dir == "" {
		return
	}
	s := embed.New(embed.Options{DataDir: dir, Listen: true, Port: -1})
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte(s.ClientURL()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	select {} // until it is killed
}

func awaitFile(t *testing.T, path string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		text, _ := os.ReadFile(path)
		if line, ok := strings.CutSuffix(string(text), "\n"); ok {
			return line
		}
	}
	t.Fatalf("%s did not appear", path)
	return ""
}
