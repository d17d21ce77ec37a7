// Package web opens http:// and https:// references for a fabric: its Resolver is
// one for fabric.Options.Resolvers.
//
// A reference is written by whoever may enqueue and fetched by the runner, which may
// reach what the writer may not: other services of its network, the metadata of its
// machine. So a Resolver fetches from the hosts that it is given and from no other,
// and asks again at every redirect. There is no way to allow all of them. It sends no
// credentials and no cookies, and refuses references that carry some.
package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weft-fabric/weft/internal/silence"
	"github.com/weft-fabric/weft/job"
)

// Options are the settings of a Resolver.
type Options struct {
	// Hosts may be fetched from: each a host name or address, which means its scheme's
	// own port, or host:port. "*.example.com" is every name below example.com.
	Hosts []string
	// Silence is how long the server may take to answer, and then between two bytes.
	// The default, 0, is 30 s.
	Silence time.Duration
	// MaxRedirects is how many redirects are followed, each to an allowed host. The
	// default, 0, is 5; less than 0 follows none.
	MaxRedirects int
	// MaxSize is the most bytes of a body. The default, 0, is job.DefaultMaxInput.
	MaxSize int64
}

// Resolver opens http:// and https:// references. It may be used from many
// goroutines at once.
type Resolver struct {
	options Options
	client  *http.Client
}

// New makes a Resolver. It fails if a host is none.
func New(o Options) (*Resolver, error) {
	for _, host := range o.Hosts {
		if err := CheckHost(host); err != nil {
			return nil, err
		}
	}
	fill(&o.Silence, 30*time.Second)
	fill(&o.MaxRedirects, 5)
	fill(&o.MaxSize, job.DefaultMaxInput)
	r := &Resolver{options: o}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // bytes are counted as they come
	r.client = &http.Client{Transport: transport, CheckRedirect: r.redirect}
	return r, nil
}

func fill[T int | int64 | time.Duration](value *T, fallback T) {
	if *value == 0 {
		*value = fallback
	}
}

// CheckHost refuses what cannot be one of Options.Hosts.
func CheckHost(host string) error {
	name := strings.TrimPrefix(host, "*.")
	u, err := url.Parse("http://" + name)
	if err != nil || u.Host != name || u.Hostname() == "" || strings.Contains(name, "*") {
		return fmt.Errorf("host %.80q is not a host name, host:port, or *.domain", host)
	}
	return nil
}

// Open fetches what the reference names.
func (r *Resolver) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: it is no URL", job.ErrUnopenable) // the parser's error repeats it
	}
	if err := r.allowed(u); err != nil {
		return nil, err
	}
	u.Fragment = ""
	watch := silence.Start(ctx, r.options.Silence)
	request, err := http.NewRequestWithContext(watch.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		watch.End()
		return nil, fmt.Errorf("%w: no request can be made of it", job.ErrUnopenable)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		err = watch.Explain(bare(err))
		watch.End()
		return nil, err
	}
	body := watch.Body(answer.Body)
	if err := r.acceptable(answer); err != nil {
		_ = body.Close() // nothing was read
		return nil, err
	}
	return job.Bounded(body, r.options.MaxSize), nil
}

// allowed refuses a URL that must not be fetched.
func (r *Resolver) allowed(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return fmt.Errorf("%w: it is not http://HOST/PATH or https://HOST/PATH", job.ErrUnopenable)
	case u.User != nil:
		return fmt.Errorf("%w: it has a user in it, and credentials are not sent", job.ErrUnopenable)
	case !slices.ContainsFunc(r.options.Hosts, func(host string) bool { return matches(host, u) }):
		return fmt.Errorf("%w: host %.80q is not among those that may be fetched from", job.ErrUnopenable, u.Host)
	}
	return nil
}

// matches reports whether a URL is of an allowed host, and of its port.
func matches(host string, u *url.URL) bool {
	pattern, wild := strings.CutPrefix(host, "*.")
	allowed := &url.URL{Scheme: u.Scheme, Host: pattern}
	if port(allowed) != port(u) {
		return false
	}
	name := strings.TrimSuffix(u.Hostname(), ".")
	if wild {
		i := len(name) - len(allowed.Hostname()) - 1
		return i > 0 && name[i] == '.' && strings.EqualFold(name[i+1:], allowed.Hostname())
	}
	return strings.EqualFold(name, allowed.Hostname())
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// redirect follows a redirect to an allowed host, a limited number of times, and
// never from https to http.
func (r *Resolver) redirect(next *http.Request, before []*http.Request) error {
	next.Header.Del("Referer") // it has the query in it
	switch {
	case len(before) > r.options.MaxRedirects:
		return fmt.Errorf("%w: it is redirected more than %d times", job.ErrUnopenable, max(r.options.MaxRedirects, 0))
	case before[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("%w: it is redirected from https to %s", job.ErrUnopenable, next.URL.Scheme)
	}
	if err := r.allowed(next.URL); err != nil {
		return fmt.Errorf("redirected: %w", err)
	}
	return nil
}

// acceptable refuses an answer that is not what was asked for. That it is not there,
// or not well asked for, stays so; that it is refused or fails may pass.
func (r *Resolver) acceptable(answer *http.Response) error {
	switch code := answer.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusRequestTimeout,
		code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return fmt.Errorf("the server answers %s", answer.Status)
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Errorf("%w: the server answers %s", job.ErrAbsent, answer.Status)
	default:
		return fmt.Errorf("%w: the server answers %s", job.ErrUnopenable, answer.Status)
	}
	if answer.ContentLength > r.options.MaxSize {
		return fmt.Errorf("%w: it has %d bytes, more than %d, which is the limit", job.ErrUnopenable, answer.ContentLength, r.options.MaxSize)
	}
	return nil
}

// bare takes off the URL that the client puts before its errors: it may be a secret.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
