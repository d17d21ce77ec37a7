package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/vincent-petithory/dataurl"

	"github.com/weft-fabric/weft/job"
)

// objectScheme starts a reference to an object: nats-obj://<bucket>/<name>.
const objectScheme = "nats-obj://"

// ErrUnopenable is a reference that the fabric cannot open, now or later: it is
// not a well-formed data: URI and not that of an object that exists.
var ErrUnopenable = errors.New("cannot be opened; Weft itself opens well-formed data: URIs and nats-obj://<bucket>/<name>")

// ErrNoOutput is asked of a job that has not succeeded.
var ErrNoOutput = errors.New("the job has no output")

// outputBucket is the object store of outputs too large for a record.
func (f *Fabric) outputBucket() string { return f.opts.Namespace + "-output" }

// store puts an output where the record can name it: up to job.MaxInlineOutput
// bytes into the reference itself, more into an object named by job and fence, so
// that a stale worker's output never replaces its successor's. An output that
// cannot be read fails with job.ErrInvalidJob.
func (f *Fabric) store(ctx context.Context, token job.Token, open func() (io.ReadCloser, error)) (string, error) {
	body, err := open()
	if err != nil {
		return "", unreadable(err)
	}
	defer body.Close()
	// A reader that waits for its source would not learn that ctx has ended.
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	src := &source{Reader: body}
	ref, err := f.storeFrom(ctx, token, src)
	if src.err != nil {
		return "", unreadable(src.err)
	}
	return ref, err
}

func (f *Fabric) storeFrom(ctx context.Context, token job.Token, src io.Reader) (string, error) {
	var head bytes.Buffer
	ref, err := inline(io.TeeReader(src, &head))
	if err != nil || ref != "" {
		return ref, err
	}
	return f.storeObject(ctx, token, io.MultiReader(&head, src))
}

// inline reads an output that a reference can hold, and makes that; of a larger
// one it reads a little more and gives none.
func inline(src io.Reader) (string, error) {
	head, err := io.ReadAll(io.LimitReader(src, job.MaxInlineOutput+1))
	if err != nil || len(head) > job.MaxInlineOutput {
		return "", err
	}
	return dataURI(head), nil
}

// source is an output that is being read. It remembers its own error, to tell it
// from the server's.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// unreadable is the error of an output that its own reader fails to give. Trying
// again is of no use, so it is the outcome that is refused.
func unreadable(err error) error {
	return fmt.Errorf("%w: %w", job.Invalid("the output cannot be read"), err)
}

func (f *Fabric) storeObject(ctx context.Context, token job.Token, body io.Reader) (string, error) {
	objects, err := f.js.ObjectStore(ctx, f.outputBucket())
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		objects, err = f.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: f.outputBucket(), Description: "Weft outputs too large for a record", Replicas: f.opts.Replicas,
			// The server removes every output some time after its record.
			TTL: f.opts.Retention.Succeeded + 24*time.Hour,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another process was faster
			objects, err = f.js.ObjectStore(ctx, f.outputBucket())
		}
	}
	if err != nil {
		return "", fmt.Errorf("output: object store %s: %w", f.outputBucket(), err)
	}
	name := fmt.Sprintf("%s/%d", token.JobID, token.Fence)
	if _, err := objects.Put(ctx, jetstream.ObjectMeta{Name: name}, body); err != nil {
		return "", fmt.Errorf("output: object %s: %w", name, err)
	}
	return objectScheme + f.outputBucket() + "/" + name, nil
}

// dataURI makes a data: URI (RFC 2397): a text percent-encoded, so that a person
// can read it in the record, unless that makes it longer than twice its length;
// everything else in base64.
func dataURI(data []byte) string {
	media := "application/octet-stream"
	if utf8.Valid(data) {
		media = "text/plain;charset=utf-8"
		if escaped := dataurl.Escape(data); len(escaped) <= 2*len(data) {
			return "data:" + media + "," + escaped
		}
	}
	uri := dataurl.New(data, media)
	uri.Encoding = dataurl.EncodingBase64
	return uri.String()
}

// Output opens the output of a job that has succeeded. It fails with
// ErrNoOutput, and with ErrUnopenable for a reference of the handler's own kind.
// The caller closes it.
func (f *Fabric) Output(ctx context.Context, j job.Job) (io.ReadCloser, error) {
	if j.State != job.StateSucceeded {
		return nil, fmt.Errorf("job %s is %s: %w", j.ID, j.State, ErrNoOutput)
	}
	return f.OpenRef(ctx, j.OutputRef)
}

// OpenRef opens a reference to an input or output: a data: URI or an object of
// this account. It fails with ErrUnopenable for any other. The caller closes it.
func (f *Fabric) OpenRef(ctx context.Context, ref string) (io.ReadCloser, error) {
	if strings.HasPrefix(ref, "data:") {
		uri, err := dataurl.DecodeString(ref)
		if err != nil {
			return nil, fmt.Errorf("reference %.80q: %w: %w", ref, ErrUnopenable, err)
		}
		return io.NopCloser(bytes.NewReader(uri.Data)), nil
	}
	rest, ok := strings.CutPrefix(ref, objectScheme)
	bucket, name, named := strings.Cut(rest, "/")
	if !ok || !named {
		return nil, fmt.Errorf("reference %.80q: %w", ref, ErrUnopenable)
	}
	objects, err := f.js.ObjectStore(ctx, bucket)
	if err != nil {
		return nil, unopened(ref, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(longestSilence, cancel) // the client waits for answers as long as ctx says
	object, err := objects.Get(patient{ctx}, name)
	late.Stop()
	if err != nil {
		cancel()
		return nil, unopened(ref, err)
	}
	return &objectReader{object, cancel}, nil
}

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
func unopened(ref string, err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrInvalidStoreName) {
		return fmt.Errorf("reference %.80q: %w: %w", ref, ErrUnopenable, err)
	}
	return fmt.Errorf("reference %.80q: %w", ref, err)
}
