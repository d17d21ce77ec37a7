package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/roles"
)

// connectTimeout bounds the first connection to each server.
const connectTimeout = 2 * time.Second

// reconnectWait lies between two tries to reach a server that was lost.
const reconnectWait = 500 * time.Millisecond

// Connect connects as the nats program would: to the given servers, else to the
// given context, else to the selected context, else to 127.0.0.1:4222. A lost
// connection is taken up again for as long as it takes; that there is none at
// the start is an error at once.
//
// The namespace and the role name the inbox where answers come, unless one is
// given; a context's own holds when neither is.
func Connect(c config.Connection, namespace, name string, log *slog.Logger) (*nats.Conn, error) {
	options, err := clientOptions(c, namespace)
	if err != nil {
		return nil, err
	}
	options = append(options, lasting(name, log)...)
	var servers []string // what is asked in the end, for the error
	options = append(options, func(o *nats.Options) error {
		servers = append(servers, o.Servers...)
		if len(servers) == 0 {
			servers = []string{nats.DefaultURL}
		}
		return nil
	})
	nc, err := dial(c, options)
	if err != nil {
		return nil, connectError(c, servers, err)
	}
	return nc, nil
}

func dial(c config.Connection, options []nats.Option) (*nats.Conn, error) {
	if c.Server != "" && c.Context == "" {
		return nats.Connect(c.Server, options...)
	}
	nc, _, err := natscontext.Connect(c.Context, options...)
	return nc, err
}

// clientOptions are the options of who asks. Options come after a context's own,
// so that what is given beside a context wins over it.
func clientOptions(c config.Connection, namespace string) ([]nats.Option, error) {
	var options []nats.Option
	if c.Server != "" && c.Context != "" {
		options = append(options, servers(c.Server))
	}
	credentials, err := credentials(c)
	if err != nil {
		return nil, err
	}
	options = append(options, credentials...)
	options = append(options, inbox(c, namespace)...)
	if c.TLS.Cert != "" {
		options = append(options, given("--tlscert "+c.TLS.Cert, nats.ClientCert(c.TLS.Cert, c.TLS.Key)))
	}
	if c.TLS.CA != "" {
		options = append(options, given("--tlsca "+c.TLS.CA, nats.RootCAs(c.TLS.CA)))
	}
	if c.TLS.First {
		options = append(options, nats.TLSHandshakeFirst())
	}
	return options, nil
}

// servers replaces the servers of a context.
func servers(list string) nats.Option {
	return func(o *nats.Options) error {
		o.Servers = nil
		for server := range strings.SplitSeq(list, ",") {
			o.Servers = append(o.Servers, strings.TrimSpace(server))
		}
		return nil
	}
}

// inbox is where the answers to this process come.
func inbox(c config.Connection, namespace string) []nats.Option {
	switch {
	case c.InboxPrefix != "":
		return []nats.Option{nats.CustomInboxPrefix(c.InboxPrefix)}
	case c.Role != "":
		return []nats.Option{nats.CustomInboxPrefix(roles.InboxPrefix(namespace, roles.Role(c.Role)))}
	}
	return nil
}

func credentials(c config.Connection) ([]nats.Option, error) {
	switch {
	case c.Creds != "":
		if err := checkCreds(c.Creds); err != nil {
			return nil, Usage("--creds %s: %w", c.Creds, reason(err))
		}
		return []nats.Option{nats.UserCredentials(c.Creds)}, nil
	case c.NKey != "":
		option, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, Usage("--nkey %s: %w", c.NKey, reason(err))
		}
		return []nats.Option{option}, nil
	case c.User != "" && c.Password == "":
		return []nats.Option{nats.Token(c.User)}, nil
	case c.User != "":
		return []nats.Option{nats.UserInfo(c.User, c.Password)}, nil
	}
	return nil, nil
}

// checkCreds reads a credentials file, which the client does at every connect: a
// file that is not there would look like a server that refuses it.
func checkCreds(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	seed, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return fmt.Errorf("it is no credentials file: %w", err)
	}
	seed.Wipe()
	return nil
}

// reason is the cause of a path error whose path the caller names already.
func reason(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// given makes what is wrong with an option the mistake of whoever gave it.
func given(what string, option nats.Option) nats.Option {
	return func(o *nats.Options) error {
		if err := option(o); err != nil {
			return Usage("%s: %w", what, reason(err))
		}
		return nil
	}
}

// lasting keeps a connection up and says in the log what becomes of it.
func lasting(name string, log *slog.Logger) []nats.Option {
	return append(fabric.ConnectOptions(),
		nats.Name(name),
		nats.Timeout(connectTimeout),
		nats.ReconnectWait(reconnectWait),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("lost the server, connecting again", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("connected again", "server", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if s != nil {
				log.Warn("connection error", "subject", s.Subject, "error", err)
				return
			}
			log.Warn("connection error", "error", err)
		}),
	)
}

// connectError says which server was asked and what to do about it.
func connectError(c config.Connection, asked []string, err error) error {
	if usage, ok := errors.AsType[*UsageError](err); ok {
		return usage
	}
	where := redactAll(asked)
	switch {
	case where == "": // no server was asked: the context could not be read
		return Usage("nats context %q: %w; see nats context ls", c.Context, err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.Is(err, syscall.ECONNREFUSED):
		return &ServerError{fmt.Errorf("no server answers at %s (%w); start one with weft serve, or name another with --server or NATS_URL", where, err)}
	case certificateRefused(err):
		return &ServerError{fmt.Errorf("server %s shows a certificate that is not trusted (%w); name its authority with --tlsca", where, err)}
	case errors.Is(err, nats.ErrAuthorization):
		return &ServerError{fmt.Errorf("server %s refuses who asks (%w); give --creds, --user or --nkey", where, err)}
	}
	return &ServerError{fmt.Errorf("server %s cannot be used: %w", where, err)}
}

// certificateRefused reports whether this side does not trust the server. That the
// server does not trust this side is not known by a type.
func certificateRefused(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// redact shows a server's address without who asks: a user without password is a
// token.
func redact(server string) string {
	if server == "" {
		return nats.DefaultURL
	}
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return "an address that cannot be read"
	}
	u.User = nil
	return u.String()
}

func redactAll(servers []string) string {
	var shown []string
	for _, server := range servers {
		shown = append(shown, redact(server))
	}
	return strings.Join(shown, ", ")
}
