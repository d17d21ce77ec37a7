package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits that Validate keeps.
const (
	MaxConcurrency = 1000        // commands of one worker; each holds a thread
	MinLease       = time.Second // below it, renewals would be most of the work
	MinRetention   = time.Hour   // a record outlives whatever may still speak of its job
	leasesKept     = 10          // and so many leases
)

var namespaceRule = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Validate refuses settings that cannot work, one line for the first of them:
// its name, its value, the rule, and the way out.
func (c Config) Validate() error {
	checks := []func() error{
		c.checkNames, c.checkNumbers, c.checkTimes, c.Backoff.check, c.checkRetention,
		c.Connection.check, c.checkServer, c.Log.check,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return fmt.Errorf("config: %w", err)
		}
	}
	return nil
}

func (c Config) checkNames() error {
	if !namespaceRule.MatchString(c.Namespace) {
		return fmt.Errorf("namespace %q is not a-z followed by up to 31 of a-z 0-9 _ -; leave it out for weft", c.Namespace)
	}
	return nil
}

func (c Config) checkNumbers() error {
	switch {
	case c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return fmt.Errorf("replicas %d is not 1, 3 or 5; give 1 for one server, 3 for a cluster", c.Replicas)
	case c.Concurrency < 1 || c.Concurrency > MaxConcurrency:
		return fmt.Errorf("concurrency %d is not within 1 and %d; start more workers for more", c.Concurrency, MaxConcurrency)
	case c.MaxInput < 1:
		return fmt.Errorf("max_input %d is below 1; leave it out for 1 GiB", c.MaxInput)
	case c.MaxAttempts < 1:
		return fmt.Errorf("max_attempts %d is below 1; give 1 for no second try", c.MaxAttempts)
	}
	return nil
}

func (c Config) checkTimes() error {
	if c.Lease < MinLease {
		return fmt.Errorf("lease %s is below %s; leave it out for 30s", c.Lease, MinLease)
	}
	return positive("drain", c.Drain, "30s")
}

func positive(name string, d time.Duration, usual string) error {
	if d <= 0 {
		return fmt.Errorf("%s %s is not above 0; leave it out for %s", name, d, usual)
	}
	return nil
}

func (b Backoff) check() error {
	switch {
	case b.Initial <= 0:
		return positive("backoff.initial", b.Initial, "1s")
	case b.Max < b.Initial:
		return fmt.Errorf("backoff.max %s is below backoff.initial %s; raise it or lower the other", b.Max, b.Initial)
	case !(b.Factor >= 1) || math.IsInf(b.Factor, 0):
		return fmt.Errorf("backoff.factor %v is below 1; give 1 for equal waits, 2 for doubling ones", b.Factor)
	case !(b.Jitter >= 0 && b.Jitter < 1):
		return fmt.Errorf("backoff.jitter %v is not from 0 up to 1; give 0.2 for a fifth", b.Jitter)
	}
	return nil
}

func (c Config) checkRetention() error {
	for _, kept := range []struct {
		name string
		time time.Duration
	}{
		{"retention.succeeded", c.Retention.Succeeded},
		{"retention.cancelled", c.Retention.Cancelled},
		{"retention.failed", c.Retention.Failed},
	} {
		switch {
		case kept.time < MinRetention:
			return fmt.Errorf("%s %s is below %s; raise it", kept.name, kept.time, MinRetention)
		case kept.time/leasesKept < c.Lease:
			return fmt.Errorf("%s %s is below %d leases of %s; raise it or lower lease", kept.name, kept.time, leasesKept, c.Lease)
		}
	}
	return nil
}

func (c Connection) check() error {
	switch {
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return fmt.Errorf("tls.cert %q and tls.key %q need each other; give both or none", c.TLS.Cert, c.TLS.Key)
	case c.Password != "" && c.User == "":
		return fmt.Errorf("password is given without user; give both, or a token as user")
	case count(c.Creds, c.User, c.NKey) > 1:
		return fmt.Errorf("creds %q, user %q and nkey %q exclude each other; give one", c.Creds, c.User, c.NKey)
	}
	if c.Role != "" && !slices.Contains([]string{"backend", "runner", "operator", "viewer"}, c.Role) {
		return fmt.Errorf("role %q is none of backend, runner, operator and viewer", c.Role)
	}
	if strings.ContainsAny(c.InboxPrefix, "*> \t\r\n") || strings.HasSuffix(c.InboxPrefix, ".") || strings.HasPrefix(c.InboxPrefix, ".") {
		return fmt.Errorf("inbox_prefix %q is no subject; give one such as _INBOX_weft_backend", c.InboxPrefix)
	}
	for server := range strings.SplitSeq(c.Server, ",") {
		if err := checkServerURL(strings.TrimSpace(server)); err != nil {
			return err
		}
	}
	return nil
}

// checkServerURL takes what nats.go takes: a URL, or host:port without a scheme.
func checkServerURL(server string) error {
	if server == "" {
		return nil
	}
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("server %q is not a URL; give one such as nats://127.0.0.1:4222", redact(server))
	}
	if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
		return fmt.Errorf("server %q has scheme %s; give nats, tls, ws or wss", u.Redacted(), u.Scheme)
	}
	return nil
}

// redact hides what may be a password in a URL that cannot be parsed.
func redact(server string) string {
	if at := strings.LastIndex(server, "@"); at >= 0 {
		return "xxxxx" + server[at:]
	}
	return server
}

func count(texts ...string) int {
	given := 0
	for _, text := range texts {
		if text != "" {
			given++
		}
	}
	return given
}

func (c Config) checkServer() error {
	if !c.Sync.Always && c.Sync.Every <= 0 {
		return fmt.Errorf("sync_interval %q is not above 0; give a duration such as 10s, or always", c.Sync.Every)
	}
	for _, at := range []struct{ name, address string }{{"listen", c.Listen}, {"metrics", c.Metrics}} {
		if at.address == "" {
			continue
		}
		if _, _, err := SplitAddress(at.name, at.address); err != nil {
			return err
		}
	}
	return nil
}

// usualPorts are for the examples in errors.
var usualPorts = map[string]string{"listen": "4222", "metrics": "9464"}

// SplitListen takes an address apart; an empty host is 127.0.0.1, and port -1 is
// a free one.
func SplitListen(address string) (host string, port int, err error) {
	return SplitAddress("listen", address)
}

// SplitAddress is SplitListen for the named setting.
func SplitAddress(name, address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%s %q is not host:port; give one such as 127.0.0.1:%s", name, address, usualPorts[name])
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < -1 || port == 0 || port > math.MaxUint16 {
		return "", 0, fmt.Errorf("%s %q has no port from 1 to 65535; give one, or -1 for a free one", name, address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}

func (l Log) check() error {
	if _, err := l.SlogLevel(); err != nil {
		return err
	}
	if l.Format != "text" && l.Format != "json" {
		return fmt.Errorf("log.format %q is unknown; give text or json", l.Format)
	}
	return nil
}

// SlogLevel is the level as slog knows it.
func (l Log) SlogLevel() (slog.Level, error) {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[l.Level]
	if !ok {
		return 0, fmt.Errorf("log.level %q is unknown; give debug, info, warn or error", l.Level)
	}
	return level, nil
}
