package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/weft-fabric/weft/config"
)

// load runs a loader with every setting that has a flag bound.
func load(t *testing.T, file string, env map[string]string, args ...string) (config.Config, *config.Loader, error) {
	t.Helper()
	l := config.NewLoader()
	l.LookupEnv = func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, row := range config.Rows() {
		if row.Flag != "" {
			l.Bind(fs, row.Name)
		}
	}
	if file != "" {
		args = append(args, "--config", write(t, file))
	}
	if err := fs.Parse(args); err != nil {
		return config.Config{}, l, err
	}
	c, err := l.Load(fs)
	return c, l, err
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range append(parts, "") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q has several lines", err)
	}
}

func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	if err := config.Default().Validate(); err != nil {
		t.Error(err)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := "lease: 10s\ndrain: 11s\nconcurrency: 12\n"
	env := map[string]string{"WEFT_DRAIN": "21s", "WEFT_CONCURRENCY": "22", "WEFT_LEASE": ""}
	c, l, err := load(t, file, env, "--concurrency", "32")
	if err != nil {
		t.Fatal(err)
	}
	if c.Lease != 10*time.Second || c.Drain != 21*time.Second || c.Concurrency != 32 || c.MaxAttempts != 3 {
		t.Errorf("lease %s from the file, drain %s from the environment, concurrency %d from the flag, max_attempts %d by default", c.Lease, c.Drain, c.Concurrency, c.MaxAttempts)
	}
	for name, want := range map[string]bool{"lease": true, "drain": true, "concurrency": true, "max_attempts": false} {
		if l.Given(name) != want {
			t.Errorf("%s given: %t, want %t", name, !want, want)
		}
	}
}

func TestEverySettingCanComeFromEveryPlace(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"server": "nats://h:1", "namespace": "other", "replicas": "3", "log.level": "debug", "log.format": "json",
		"retention.succeeded": "50h", "retention.cancelled": "51h", "retention.failed": "52h", "lease": "9s",
		"concurrency": "4", "drain": "8s", "max_attempts": "7", "backoff.initial": "2s", "backoff.max": "3s",
		"backoff.factor": "1.5", "backoff.jitter": "0.1", "listen": "h:1", "sync_interval": "always", "tls.first": "true", "role": "viewer", "metrics": "h:1",
		"max_input": "99", "s3.link_life": "3m",
	}
	for _, row := range config.Rows() {
		value := values[row.Name]
		if value == "" {
			value = "text"
		}
		for place, read := range map[string]func() (config.Config, error){
			"file": func() (config.Config, error) {
				c, _, err := load(t, nested(row.Name, value), nil)
				return c, err
			},
			"environment": func() (config.Config, error) {
				c, _, err := load(t, "", map[string]string{row.Env: value})
				return c, err
			},
			"flag": func() (config.Config, error) {
				if row.Flag == "" {
					c, _, err := load(t, "", map[string]string{row.Env: value})
					return c, err
				}
				c, _, err := load(t, "", nil, row.Flag+"="+value)
				return c, err
			},
		} {
			c, err := read()
			if err != nil && !strings.Contains(err.Error(), "each other") && !strings.Contains(err.Error(), "without user") {
				t.Errorf("%s by %s: %v", row.Name, place, err)
			}
			if c == config.Default() {
				t.Errorf("%s by %s changes nothing", row.Name, place)
			}
		}
	}
}

// nested writes a dotted name as YAML.
func nested(name, value string) string {
	if group, member, ok := strings.Cut(name, "."); ok {
		return group + ":\n  " + member + ": " + value + "\n"
	}
	return name + ": " + value + "\n"
}

func TestFileIsRead(t *testing.T) {
	t.Parallel()
	c, _, err := load(t, "# ours\nserver: [nats://a:1, nats://b:2]\ntls: {ca: ca.pem}\nbackoff:\n  initial: 2s\nlog:\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Connection.Server != "nats://a:1,nats://b:2" || c.Connection.TLS.CA != "ca.pem" || c.Backoff.Initial != 2*time.Second {
		t.Errorf("got %+v", c)
	}
	if c, _, err := load(t, "# nothing\n", nil); err != nil || c != config.Default() {
		t.Errorf("empty file: %+v, %v", c, err)
	}
}

func TestFileIsRefused(t *testing.T) {
	t.Parallel()
	for text, parts := range map[string][]string{
		"lease: 10s\nleese: 1s\n":       {":2:", `"leese" is unknown`},
		"backoff:\n  initail: 1s\n":     {":2:", `"backoff.initail" is unknown`},
		"lease: 10s\n\nlease: 11s\n":    {":3:", "twice", "line 1"},
		"lease: soon\n":                 {":1:", "lease", `"soon"`, "30s"},
		"lease: [1s, 2s]\n":             {":1:", "lease"},
		"lease: {a: 1}\n":               {"lease", "one value"},
		"- lease\n":                     {":1:", "name: value"},
		"backoff: 1s\n":                 {":1:", "name: value"},
		"concurrency: many\n":           {"concurrency", "whole number"},
		"tls: {first: maybe}\n":         {"tls.first", "true or false"},
		"backoff: {factor: x}\n":        {"backoff.factor", "number"},
		"a: b: c\n":                     {"not YAML"},
		"sync_interval: sometimes\n":    {"sync_interval", "always"},
		"concurrency: 99999999999999\n": {"concurrency"},
	} {
		_, _, err := load(t, text, nil)
		wantError(t, err, parts...)
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, _, err := load(t, "", nil, "--config", "/no/such.yaml")
	wantError(t, err, "/no/such.yaml")
	_, _, err = load(t, "", map[string]string{"WEFT_CONFIG": "/no/such.yaml"})
	wantError(t, err, "/no/such.yaml")
}

func TestWrongValuesNameTheirPlace(t *testing.T) {
	t.Parallel()
	_, _, err := load(t, "", map[string]string{"WEFT_LEASE": "soon"})
	wantError(t, err, "WEFT_LEASE", "soon")
	_, _, err = load(t, "", nil, "--lease", "soon")
	wantError(t, err, "--lease", "soon")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*config.Config)
		parts  []string
	}{
		"namespace":       {func(c *config.Config) { c.Namespace = "Weft" }, []string{"namespace", `"Weft"`, "a-z"}},
		"long namespace":  {func(c *config.Config) { c.Namespace = strings.Repeat("a", 33) }, []string{"namespace"}},
		"replicas":        {func(c *config.Config) { c.Replicas = 2 }, []string{"replicas 2", "3 for a cluster"}},
		"concurrency":     {func(c *config.Config) { c.Concurrency = 0 }, []string{"concurrency 0"}},
		"max_attempts":    {func(c *config.Config) { c.MaxAttempts = 0 }, []string{"max_attempts 0"}},
		"max_input":       {func(c *config.Config) { c.MaxInput = 0 }, []string{"max_input 0", "1 GiB"}},
		"lease":           {func(c *config.Config) { c.Lease = 0 }, []string{"lease 0s", "30s"}},
		"drain":           {func(c *config.Config) { c.Drain = -1 }, []string{"drain -1ns"}},
		"backoff.initial": {func(c *config.Config) { c.Backoff.Initial = 0 }, []string{"backoff.initial 0s"}},
		"backoff.max":     {func(c *config.Config) { c.Backoff.Max = 1 }, []string{"backoff.max 1ns", "backoff.initial 1s"}},
		"backoff.factor":  {func(c *config.Config) { c.Backoff.Factor = 0.5 }, []string{"backoff.factor 0.5"}},
		"backoff.jitter":  {func(c *config.Config) { c.Backoff.Jitter = 1 }, []string{"backoff.jitter 1"}},
		"retention":       {func(c *config.Config) { c.Retention.Failed = time.Minute }, []string{"retention.failed 1m0s", "1h0m0s"}},
		"retention/lease": {func(c *config.Config) { c.Lease = 24 * time.Hour }, []string{"retention.succeeded", "10 leases"}},
		"tls":             {func(c *config.Config) { c.Connection.TLS.Cert = "c" }, []string{"tls.cert", "tls.key"}},
		"password":        {func(c *config.Config) { c.Connection.Password = "secret" }, []string{"password", "user"}},
		"two identities":  {func(c *config.Config) { c.Connection.Creds, c.Connection.NKey = "c", "n" }, []string{"creds", "nkey", "give one"}},
		"server":          {func(c *config.Config) { c.Connection.Server = "nats://a:1,http://b" }, []string{"server", "http"}},
		"server form":     {func(c *config.Config) { c.Connection.Server = "nats://u:secret@%zz" }, []string{"server", "nats://127.0.0.1:4222"}},
		"sync_interval":   {func(c *config.Config) { c.Sync.Every = 0 }, []string{"sync_interval", "always"}},
		"listen":          {func(c *config.Config) { c.Listen = "here" }, []string{"listen", `"here"`, "host:port"}},
		"listen port":     {func(c *config.Config) { c.Listen = "h:70000" }, []string{"listen", "65535"}},
		"metrics":         {func(c *config.Config) { c.Metrics = "9464" }, []string{"metrics", `"9464"`, "host:port", "127.0.0.1:9464"}},
		"metrics port":    {func(c *config.Config) { c.Metrics = "h:0" }, []string{"metrics", "65535"}},
		"log.level":       {func(c *config.Config) { c.Log.Level = "loud" }, []string{"log.level", `"loud"`, "debug"}},
		"role":            {func(c *config.Config) { c.Connection.Role = "boss" }, []string{"role", `"boss"`, "viewer"}},
		"inbox_prefix":    {func(c *config.Config) { c.Connection.InboxPrefix = "a.>" }, []string{"inbox_prefix", `"a.>"`}},
		"log.format":      {func(c *config.Config) { c.Log.Format = "xml" }, []string{"log.format", `"xml"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			test.change(&c)
			err := c.Validate()
			wantError(t, err, test.parts...)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q shows a secret", err)
			}
		})
	}
}

func TestServersThatAreFine(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "nats://a:1", "a:1", "127.0.0.1", "tls://u:p@a, nats://b:2", "ws://a:80"} {
		c := config.Default()
		c.Connection.Server = server
		if err := c.Validate(); err != nil {
			t.Errorf("%q: %v", server, err)
		}
	}
}

func TestSplitListen(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"127.0.0.1:4222": "127.0.0.1", ":4222": "127.0.0.1", "0.0.0.0:-1": "0.0.0.0", "[::1]:1": "::1"} {
		host, _, err := config.SplitListen(address)
		if err != nil || host != want {
			t.Errorf("%s: %q, %v", address, host, err)
		}
	}
	for _, address := range []string{"", "a", "a:", "a:0", "a:x", "a:-2"} {
		if _, _, err := config.SplitListen(address); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
}
