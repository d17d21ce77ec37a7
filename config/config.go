package config

import (
	"runtime"
	"time"
)

// Config is what the program can be told. Make one with Default, fill it with a
// Loader, and call Validate before use.
type Config struct {
	Connection Connection
	Namespace  string // several fabrics share one account under different namespaces
	Replicas   int    // copies that a cluster keeps of records and items

	Lease       time.Duration // how long a silent worker keeps its job
	Concurrency int           // attempts that one worker runs at once; by default one a processor
	Drain       time.Duration // how long running attempts may go on after a stop
	MaxAttempts int64         // for specs that do not say
	Backoff     Backoff
	Retention   Retention

	MaxInput int64 // bytes of a job's input
	HTTP     HTTP
	S3       S3

	Log     Log
	Metrics string // address that Prometheus metrics are served at, host:port; empty is none

	Data       string       // directory of the embedded server
	Listen     string       // address of the embedded server, host:port
	Sync       SyncInterval // how often the embedded server syncs to disk
	NATSConfig string       // nats-server configuration file of the embedded server
}

// Connection says which server to use and who asks, as the nats program does.
type Connection struct {
	Server   string // one URL, or several with commas between them
	Context  string // a context made by the nats program, by name or file
	Creds    string // credentials file
	User     string // user, or a token if Password is empty
	Password string
	NKey     string // file with an nkey seed
	Role     string // of the user: backend, runner, operator or viewer; empty is none
	// InboxPrefix is where answers come; empty is the role's, else the context's,
	// else the client's own.
	InboxPrefix string
	TLS         TLS
}

// TLS names the files of a TLS connection.
type TLS struct {
	Cert, Key, CA string
	First         bool // handshake before the server's greeting
}

// Backoff is how long a failed attempt waits before the next.
type Backoff struct {
	Initial, Max   time.Duration
	Factor, Jitter float64
}

// Retention is how long records outlive their jobs.
type Retention struct {
	Succeeded, Cancelled, Failed time.Duration
}

// HTTP says which links an input_ref may be.
type HTTP struct {
	Hosts string // host names, host:port or *.domain, with commas between them; empty fetches none
}

// S3 says where s3:// references lead. Credentials are not settings: they come from
// the environment or the file that other S3 programs use.
type S3 struct {
	Endpoint string        // URL of the server; empty opens no s3:// reference
	Region   string        // of the buckets
	LinkLife time.Duration // how long a link to an input is good for
	Output   string        // s3://BUCKET/PREFIX of large outputs; empty keeps them in NATS
}

// Log says what is logged to stderr, and how.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}

// SyncInterval is how often stored data is forced to disk; Always means before
// each answer, and the zero value leaves it to the server.
type SyncInterval struct {
	Every  time.Duration
	Always bool
}

// Default is what holds when nobody says otherwise.
func Default() Config {
	const day = 24 * time.Hour
	return Config{
		Namespace:   "weft",
		Replicas:    1,
		Lease:       30 * time.Second,
		Concurrency: min(runtime.GOMAXPROCS(0), MaxConcurrency),
		Drain:       30 * time.Second,
		MaxAttempts: 3,
		Backoff:     Backoff{Initial: time.Second, Max: 5 * time.Minute, Factor: 2, Jitter: 0.2},
		Retention:   Retention{Succeeded: 7 * day, Cancelled: 7 * day, Failed: 30 * day},
		MaxInput:    1 << 30,
		S3:          S3{LinkLife: time.Hour},
		Log:         Log{Level: "warn", Format: "text"},
		Listen:      "127.0.0.1:4222",
		Sync:        SyncInterval{Every: 10 * time.Second},
	}
}
