package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/vincent-petithory/dataurl"

	"github.com/weft-fabric/weft/job"
)

// Schemes that every fabric opens.
const (
	dataScheme   = "data"     // data: URIs, RFC 2397
	objectScheme = "nats-obj" // nats-obj://<bucket>/<name>
)

// ErrUnopenable is a reference that cannot be opened, now or later: it is
// malformed, of a scheme that nobody opens here, or names what is not there.
var ErrUnopenable = job.ErrUnopenable

// ErrAbsent is the ErrUnopenable of what is not there.
var ErrAbsent = job.ErrAbsent

// Resolver opens the references of one scheme, by Options.Resolvers. Its methods are
// called from many goroutines at once. Their errors go into logs and records: they
// must show no credentials, and no reference either, which may be a secret link.
type Resolver interface {
	// Open streams what the reference names, until ctx ends. It fails with
	// ErrUnopenable for what will not be there later either, ErrAbsent being one of
	// these; other errors are tried again. A reader that breaks off must not end with io.EOF.
	Open(ctx context.Context, ref string) (io.ReadCloser, error)
}

// Linker is a Resolver that can make links, which read what a reference names for a
// while without credentials. They are made when an attempt begins and stored nowhere.
type Linker interface {
	Link(ctx context.Context, ref string) (string, error)
}

// OpenRef opens a reference to an input or output: a data: URI, an object of this
// account, or one of a scheme of Options.Resolvers. It fails with ErrUnopenable if
// that is of no use later either; an error that does not match, such as a refused
// permission or a server that is away, may pass. The caller closes it.
func (f *Fabric) OpenRef(ctx context.Context, ref string) (io.ReadCloser, error) {
	body, err := f.openRef(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("reference %s: %w", shown(ref), err)
	}
	return body, nil
}

func (f *Fabric) openRef(ctx context.Context, ref string) (io.ReadCloser, error) {
	scheme := schemeOf(ref)
	switch resolver := f.opts.Resolvers[scheme]; {
	case scheme == dataScheme:
		return openData(ref)
	case scheme == objectScheme:
		return f.openObject(ctx, ref)
	case resolver != nil:
		return resolver.Open(ctx, ref)
	case scheme == "":
		return nil, fmt.Errorf("%w: it has no scheme; data:, nats-obj:// and what this process is told to open have one", ErrUnopenable)
	}
	return nil, fmt.Errorf("%w: scheme %.20q is not enabled here; Weft itself opens data: and nats-obj://", ErrUnopenable, scheme)
}

// LinkRef makes a link that reads what a reference names for a while without
// credentials. It is empty for a scheme that has none. It is a secret.
func (f *Fabric) LinkRef(ctx context.Context, ref string) (string, error) {
	linker, ok := f.opts.Resolvers[schemeOf(ref)].(Linker)
	if !ok {
		return "", nil
	}
	link, err := linker.Link(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("link for reference %s: %w", shown(ref), err)
	}
	return link, nil
}

// scheme is that of a URI, RFC 3986 section 3.1.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// schemeOf is a reference's scheme in lower case, empty if it has none.
func schemeOf(ref string) string {
	return strings.ToLower(strings.TrimSuffix(scheme.FindString(ref), ":"))
}

// shown is a reference as an error names it: its beginning, and of a link neither
// the user nor the query, where secrets are.
func shown(ref string) string {
	if s := schemeOf(ref); s != dataScheme {
		ref, _, _ = strings.Cut(ref, "?")
		if rest, ok := strings.CutPrefix(ref[len(s):], "://"); ok {
			host, path, slash := strings.Cut(rest, "/")
			if _, after, user := strings.Cut(host, "@"); user && s != objectScheme {
				rest = after
				if slash {
					rest += "/" + path
				}
				ref = s + "://" + rest
			}
		}
	}
	return fmt.Sprintf("%.80q", ref)
}

func openData(ref string) (io.ReadCloser, error) {
	uri, err := dataurl.DecodeString(dataScheme + ref[len(dataScheme):])
	if err != nil {
		return nil, fmt.Errorf("%w: it is no data: URI of RFC 2397: %w", ErrUnopenable, err)
	}
	return io.NopCloser(bytes.NewReader(uri.Data)), nil
}

func (f *Fabric) openObject(ctx context.Context, ref string) (io.ReadCloser, error) {
	rest, ok := strings.CutPrefix(ref[len(objectScheme):], "://")
	bucket, name, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" || name == "" {
		return nil, fmt.Errorf("%w: it is not nats-obj://<bucket>/<name>", ErrUnopenable)
	}
	objects, err := f.js.ObjectStore(ctx, bucket)
	if err != nil {
		return nil, unopened(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(longestSilence, cancel) // the client waits for answers as long as ctx says
	object, err := objects.Get(patient{ctx}, name)
	late.Stop()
	if err != nil {
		cancel()
		return nil, unopened(err)
	}
	return &objectReader{object, cancel}, nil
}

// objectRef is the reference to an object.
func objectRef(bucket, name string) string { return objectScheme + "://" + bucket + "/" + name }

// How long a reader of an object waits for a chunk: one that is lost never comes.
// Every now and then it looks whether it is still wanted.
const (
	longestSilence = 30 * time.Second
	readLook       = time.Second
)

// patient is a context whose deadline is always a moment ahead. The client ends
// the reading of an object at its context's deadline, after some seconds if it
// has none, and how long a reader takes is the caller's to say. It holds a lock
// while it waits, against Close too, so the moment is short.
type patient struct{ context.Context }

// Deadline is a moment from now.
func (patient) Deadline() (time.Time, bool) { return time.Now().Add(readLook), true }

// objectReader reads an object under a context of its own. What it gives before
// its end is not known to be the object: the last read fails if the digest does
// not match.
type objectReader struct {
	jetstream.ObjectResult
	cancel context.CancelFunc
}

// Read waits for bytes for a while, however long the reader took before.
func (r *objectReader) Read(p []byte) (int, error) {
	for began := time.Now(); ; {
		n, err := r.ObjectResult.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if time.Since(began) > longestSilence {
			return 0, fmt.Errorf("object: no more of it came in %s: %w", longestSilence, io.ErrUnexpectedEOF)
		}
	}
}

// Close ends the reading, also one that waits.
func (r *objectReader) Close() error {
	r.cancel()
	return r.ObjectResult.Close()
}

// unopened tells an object that is not there from one that could not be asked
// for.
func unopened(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrObjectNotFound):
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	case errors.Is(err, jetstream.ErrInvalidStoreName):
		return fmt.Errorf("%w: %w", ErrUnopenable, err)
	}
	return err
}
