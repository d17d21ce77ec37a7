package config

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
)

// setting is one row of the table: its name in the file, which is also its name
// in errors, and where else it can be given.
type setting struct {
	name  string
	flag  string // empty: file and environment alone
	short string
	env   string // empty: none
	usage string
	value pflag.Value // writes to the Config that the table was made for
}

// settings is the table for c. Its order is the order of the help.
func settings(c *Config) []setting {
	all := connectionSettings(&c.Connection)
	all = append(all, fabricSettings(c)...)
	all = append(all, workSettings(c)...)
	all = append(all, sourceSettings(c)...)
	return append(all, serverSettings(c)...)
}

func connectionSettings(c *Connection) []setting {
	return []setting{
		{"server", "server", "s", "NATS_URL", "NATS server `URLs`, with commas between them", text(&c.Server)},
		{"context", "context", "", "NATS_CONTEXT", "`NAME` of a nats context; the selected one when neither this nor a server is given", text(&c.Context)},
		{"creds", "creds", "", "NATS_CREDS", "credentials `FILE`", text(&c.Creds)},
		{"user", "user", "", "NATS_USER", "`USER` name, or a token when no password is given", text(&c.User)},
		{"password", "password", "", "NATS_PASSWORD", "`PASSWORD` of the user", text(&c.Password)},
		{"nkey", "nkey", "", "NATS_NKEY", "`FILE` with an nkey seed", text(&c.NKey)},
		{"role", "role", "", "WEFT_ROLE", "`ROLE` of the user, as weft auth roles makes them: backend, runner, operator or viewer", text(&c.Role)},
		{"inbox_prefix", "inbox-prefix", "", "NATS_INBOX_PREFIX", "`PREFIX` of the inboxes where answers come; by default the role's", text(&c.InboxPrefix)},
		{"tls.cert", "tlscert", "", "NATS_CERT", "TLS certificate `FILE`", text(&c.TLS.Cert)},
		{"tls.key", "tlskey", "", "NATS_KEY", "TLS private key `FILE`", text(&c.TLS.Key)},
		{"tls.ca", "tlsca", "", "NATS_CA", "TLS certificate authority `FILE`", text(&c.TLS.CA)},
		{"tls.first", "tlsfirst", "", "NATS_TLS_FIRST", "TLS handshake before the server's greeting", boolean(&c.TLS.First)},
	}
}

func fabricSettings(c *Config) []setting {
	return []setting{
		{"namespace", "namespace", "", "WEFT_NAMESPACE", "`NAMESPACE` of the fabric", text(&c.Namespace)},
		{"replicas", "replicas", "", "WEFT_REPLICAS", "copies that a cluster keeps of each record and item", integer(&c.Replicas)},
		{"log.level", "log-level", "", "WEFT_LOG_LEVEL", "`LEVEL` of the log: debug, info, warn or error", text(&c.Log.Level)},
		{"log.format", "log-format", "", "WEFT_LOG_FORMAT", "`FORMAT` of the log: text or json", text(&c.Log.Format)},
		{"metrics", "metrics", "", "WEFT_METRICS", "`ADDR` that Prometheus metrics are served at, on /metrics, with /healthz beside: host:port; port -1 is a free one", text(&c.Metrics)},
		{"retention.succeeded", "", "", "WEFT_RETENTION_SUCCEEDED", "", duration(&c.Retention.Succeeded)},
		{"retention.cancelled", "", "", "WEFT_RETENTION_CANCELLED", "", duration(&c.Retention.Cancelled)},
		{"retention.failed", "", "", "WEFT_RETENTION_FAILED", "", duration(&c.Retention.Failed)},
	}
}

func workSettings(c *Config) []setting {
	return []setting{
		{"lease", "lease", "", "WEFT_LEASE", "how long a silent worker keeps its job", duration(&c.Lease)},
		{"concurrency", "concurrency", "c", "WEFT_CONCURRENCY", "commands to run at once", integer(&c.Concurrency)},
		{"drain", "drain", "", "WEFT_DRAIN", "how long running commands may go on after a stop", duration(&c.Drain)},
		{"max_attempts", "max-attempts", "", "WEFT_MAX_ATTEMPTS", "attempts of a job whose spec does not say", integer(&c.MaxAttempts)},
		{"backoff.initial", "", "", "WEFT_BACKOFF_INITIAL", "", duration(&c.Backoff.Initial)},
		{"backoff.max", "", "", "WEFT_BACKOFF_MAX", "", duration(&c.Backoff.Max)},
		{"backoff.factor", "", "", "WEFT_BACKOFF_FACTOR", "", number(&c.Backoff.Factor)},
		{"backoff.jitter", "", "", "WEFT_BACKOFF_JITTER", "", number(&c.Backoff.Jitter)},
	}
}

func sourceSettings(c *Config) []setting {
	return []setting{
		{"max_input", "max-input", "", "WEFT_MAX_INPUT", "most `BYTES` of a job's input", integer(&c.MaxInput)},
		{"http.hosts", "http-hosts", "", "WEFT_HTTP_HOSTS", "`HOSTS` that http(s):// references may name: host, host:port or *.domain, with commas between them (default none)", text(&c.HTTP.Hosts)},
		{"s3.endpoint", "s3-endpoint", "", "WEFT_S3_ENDPOINT", "`URL` of the server of s3:// references (default none)", text(&c.S3.Endpoint)},
		{"s3.region", "s3-region", "", "AWS_REGION", "`REGION` of the buckets", text(&c.S3.Region)},
		{"s3.link_life", "s3-link-life", "", "WEFT_S3_LINK_LIFE", "how long WEFT_INPUT_URL is good for, from 1s to 168h", duration(&c.S3.LinkLife)},
		{"s3.output", "s3-output", "", "WEFT_S3_OUTPUT", "`s3://BUCKET/PREFIX` of outputs too large for a record (default the object store in NATS)", text(&c.S3.Output)},
	}
}

func serverSettings(c *Config) []setting {
	return []setting{
		{"data", "data", "", "WEFT_DATA", "`DIR` of the embedded server's data", text(&c.Data)},
		{"listen", "listen", "", "WEFT_LISTEN", "`ADDR` that the embedded server listens on, host:port; port -1 is a free one", text(&c.Listen)},
		{"sync_interval", "sync-interval", "", "WEFT_SYNC_INTERVAL", "how often the embedded server syncs to disk: a `DURATION`, or always", &c.Sync},
		{"nats_config", "nats-config", "", "WEFT_NATS_CONFIG", "nats-server configuration `FILE` of the embedded server", text(&c.NATSConfig)},
	}
}

// Groups of settings, by name, for Loader.Bind.
var (
	// Identity is who connects.
	Identity = []string{"creds", "user", "password", "nkey", "role", "inbox_prefix"}
	// Connecting is what a program needs that uses a server elsewhere.
	Connecting = append([]string{"server", "context", "tls.cert", "tls.key", "tls.ca", "tls.first"}, Identity...)
	// Opening is what a program needs that opens references.
	Opening = []string{"http.hosts", "s3.endpoint", "s3.region"}
	// Feeding is what a program needs that gives inputs to commands, and keeps outputs.
	Feeding = append([]string{"max_input", "s3.link_life", "s3.output"}, Opening...)
	// Serving is what a program needs that embeds a server.
	Serving = []string{"data", "listen", "sync_interval", "nats_config"}
)

// find gives the named row of the table for c.
func find(c *Config, name string) (setting, bool) {
	all := settings(c)
	at := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
	if at < 0 {
		return setting{}, false
	}
	return all[at], true
}

// set writes text to the named setting of c. place says where the text is from.
func set(c *Config, name, place, text string) error {
	row, ok := find(c, name)
	if !ok {
		return fmt.Errorf("%s: setting %s is unknown", place, name)
	}
	if err := row.value.Set(text); err != nil {
		return fmt.Errorf("%s: %s is %q: %w", place, name, text, err)
	}
	return nil
}

// Row describes one setting, for a reader.
type Row struct{ Name, Flag, Env, Default string }

// Rows describes every setting, in the order of the help.
func Rows() []Row {
	c := Default()
	var rows []Row
	for _, s := range settings(&c) {
		row := Row{Name: s.name, Env: s.env, Default: s.value.String()}
		if s.flag != "" {
			row.Flag = "--" + s.flag
		}
		rows = append(rows, row)
	}
	return rows
}
