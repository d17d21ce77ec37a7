package roles_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/roles"
)

// patience bounds every wait of these tests.
const patience = 40 * time.Second

const password = "open-sesame"

// namespaces are those that a test here may have.
var namespaces = []string{"weft", "other", "a-b"}

func TestMain(m *testing.M) {
	for _, namespace := range namespaces {
		for _, r := range roles.All {
			_ = os.Setenv(roles.PasswordVariable(namespace, r), password)
		}
	}
	os.Exit(m.Run())
}

// site is a server whose one account has the users of some namespaces, as they are
// printed.
type site struct {
	t      *testing.T
	server *natstest.Server
}

func newSite(t *testing.T, configs ...roles.Config) *site {
	t.Helper()
	var text bytes.Buffer
	text.WriteString("accounts { SHARED { jetstream: enabled, users: [\n")
	for _, c := range configs {
		if err := roles.Users(&text, c, ""); err != nil {
			t.Fatal(err)
		}
	}
	text.WriteString("{ user: root, password: " + password + " } ] } }\n")
	return serve(t, text.String())
}

func serve(t *testing.T, text string) *site {
	t.Helper()
	path := filepath.Join(t.TempDir(), "roles.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("nats-server does not read it: %v\n%s", err, text)
	}
	return &site{t, natstest.Start(t, func(o *server.Options) { o.Accounts, o.Users = read.Accounts, read.Users })}
}

// settings are those of a process with a role's user.
func (s *site) settings(namespace string, r roles.Role) config.Config {
	c := config.Default()
	c.Namespace = namespace
	c.Lease = 2 * time.Second
	c.Backoff.Initial = 50 * time.Millisecond
	c.Connection = config.Connection{
		Server: s.server.URL(), User: namespace + "-" + string(r), Password: password, Role: string(r),
	}
	return c
}

// start runs a process of a role.
func (s *site) start(namespace string, r roles.Role, more ...func(*app.Options)) (*app.App, *journal) {
	s.t.Helper()
	log := &journal{}
	o := app.Options{Config: s.settings(namespace, r), Name: "test", Logger: slog.New(slog.NewTextHandler(log, nil))}
	for _, f := range more {
		f(&o)
	}
	a, err := app.Start(s.t.Context(), o)
	if err != nil {
		s.t.Fatalf("%s: %v", r, err)
	}
	s.t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			s.t.Errorf("%s: %v", r, err)
		}
		if text := log.String(); strings.Contains(text, "permission") {
			s.t.Errorf("%s was refused what it needs:\n%s", r, text)
		}
	})
	return a, log
}

// journal is a log that many may write.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// prober is a bare connection of a user that hears what it is refused.
type prober struct {
	t       *testing.T
	nc      *nats.Conn
	refused chan string
}

func (s *site) probe(namespace string, r roles.Role) *prober {
	s.t.Helper()
	p := &prober{t: s.t, refused: make(chan string, 4096)}
	p.nc = s.server.Connect(
		nats.UserInfo(namespace+"-"+string(r), password),
		nats.CustomInboxPrefix(roles.InboxPrefix(namespace, r)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { p.refused <- err.Error() }),
	)
	return p
}

// sentinel is a subject that no role may publish to. The server refuses in the
// order in which it is asked, so its refusal ends those of what went before.
const sentinel = "nobody.may.publish.here"

// publish tells whether the server refuses a publish.
func (p *prober) publish(subject string, data []byte) (refused bool) {
	p.t.Helper()
	if err := p.nc.PublishMsg(&nats.Msg{Subject: subject, Data: data}); err != nil {
		p.t.Fatal(err)
	}
	return p.until(`Publish to "` + subject + `"`)
}

// subscribe tells whether the server refuses a subscription.
func (p *prober) subscribe(subject string) (refused bool) {
	p.t.Helper()
	sub, err := p.nc.SubscribeSync(subject)
	if err != nil {
		p.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	return p.until(`Subscription to "` + subject + `"`)
}

func (p *prober) until(part string) (refused bool) {
	p.t.Helper()
	if err := p.nc.Publish(sentinel, nil); err != nil {
		p.t.Fatal(err)
	}
	for {
		select {
		case text := <-p.refused:
			if strings.Contains(text, part) {
				refused = true
			}
			if strings.Contains(text, sentinel) {
				return refused
			}
		case <-time.After(patience):
			p.t.Fatal("the server does not answer")
		}
	}
}

// within is a context that ends a wait.
func within(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}
