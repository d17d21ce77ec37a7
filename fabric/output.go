package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/vincent-petithory/dataurl"

	"github.com/weft-fabric/weft/job"
)

// ErrNoOutput is asked of a job that has not succeeded.
var ErrNoOutput = errors.New("the job has no output")

// OutputStore keeps outputs elsewhere. Its methods are called from many goroutines
// at once, while the job's lease is renewed.
type OutputStore interface {
	// Put stores an output and gives the reference to it. The name is
	// <job id>/<fence>; the same may be put again, from the beginning, and replaces
	// what is there. An error that matches job.ErrInvalidJob fails the attempt, for it
	// will not pass by itself; after any other Put is called again.
	Put(ctx context.Context, name string, body io.Reader) (ref string, err error)
}

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
	name := fmt.Sprintf("%s/%d", token.JobID, token.Fence)
	if f.opts.Outputs != nil {
		ref, err := f.opts.Outputs.Put(ctx, name, body)
		if err != nil {
			return "", fmt.Errorf("output: %w", err)
		}
		return ref, nil
	}
	objects, err := f.objectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: f.outputBucket(), Description: "Weft outputs too large for a record", Replicas: f.opts.Replicas,
		// The server removes every output some time after its record.
		TTL: f.opts.Retention.Succeeded + 24*time.Hour,
	})
	if err != nil {
		return "", fmt.Errorf("output: %w", err)
	}
	if _, err := objects.Put(ctx, jetstream.ObjectMeta{Name: name}, body); err != nil {
		return "", fmt.Errorf("output: object %s: %w", name, err)
	}
	return objectRef(f.outputBucket(), name), nil
}

// objectStore opens an object store, which is made at its first use.
func (f *Fabric) objectStore(ctx context.Context, cfg jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error) {
	objects, err := f.js.ObjectStore(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		objects, err = f.js.CreateObjectStore(ctx, cfg)
		if errors.Is(err, jetstream.ErrBucketExists) { // another process was faster
			objects, err = f.js.ObjectStore(ctx, cfg.Bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", cfg.Bucket, err)
	}
	return objects, nil
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
// ErrNoOutput, with ErrUnopenable for a reference of the handler's own kind, and with
// ErrAbsent if it is gone. The caller closes it.
func (f *Fabric) Output(ctx context.Context, j job.Job) (io.ReadCloser, error) {
	if j.State != job.StateSucceeded {
		return nil, fmt.Errorf("job %s is %s: %w", j.ID, j.State, ErrNoOutput)
	}
	return f.OpenRef(ctx, j.OutputRef)
}
