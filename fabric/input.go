package fabric

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// inputBucket is the object store of inputs that PutInput has taken.
func (f *Fabric) inputBucket() string { return f.opts.Namespace + "-input" }

// inputRest is how long an input stays that nothing mentions: an enqueue that was
// interrupted can be repeated until then, and an item without record come to a
// worker.
func (f *Fabric) inputRest() time.Duration { return f.opts.Retention.Succeeded }

// PutInput puts an input where a spec's input_ref can name it, and gives that
// reference: a data: URI for up to job.MaxInlineOutput bytes, else an object in the
// store of inputs, which is named by its SHA-256. So the same bytes have the same
// reference, and putting them again costs no second upload. The caller enqueues
// within the retention of succeeded jobs: a keeper removes an input that is older
// and that no record and no cron entry mentions.
//
// The input is read twice. One that is no io.Seeker goes through a temporary file.
// More than Options.MaxInput bytes are refused with job.ErrInvalidJob. Once ctx ends
// nothing is left of an upload, or chunks that the keeper removes.
func (f *Fabric) PutInput(ctx context.Context, input io.Reader) (ref string, err error) {
	again, err := seekable(&cancellable{ctx, io.LimitReader(input, f.opts.MaxInput+1)}, input)
	if err != nil {
		return "", fmt.Errorf("input cannot be read: %w", err)
	}
	defer func() { err = errors.Join(err, again.close()) }()
	sum := sha256.New()
	var head bytes.Buffer
	size, err := io.Copy(io.MultiWriter(sum, &keep{&head}), &cancellable{ctx, io.LimitReader(again, f.opts.MaxInput+1)})
	switch {
	case err != nil:
		return "", fmt.Errorf("input cannot be read: %w", err)
	case size > f.opts.MaxInput:
		return "", job.Invalid("the input has more than %d bytes, which is the limit; put it where input_ref can name it, or raise the limit", f.opts.MaxInput)
	case size <= job.MaxInlineOutput:
		return dataURI(head.Bytes()), nil
	}
	if err := again.rewind(); err != nil {
		return "", fmt.Errorf("input cannot be read again: %w", err)
	}
	ref, err = f.putInput(ctx, sum.Sum(nil), size, &cancellable{ctx, io.LimitReader(again, size)})
	if err != nil {
		return "", fmt.Errorf("input: %w", explain(f.nc, err))
	}
	return ref, nil
}

// putInput puts an input into the store, unless it is there and stays for long
// enough. One that is old is put again, so that no keeper takes it away now.
func (f *Fabric) putInput(ctx context.Context, sum []byte, size int64, body io.Reader) (string, error) {
	objects, err := f.objectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: f.inputBucket(), Description: "Weft inputs, named by their SHA-256; a keeper removes those that nothing mentions", Replicas: f.opts.Replicas,
	})
	if err != nil {
		return "", err
	}
	name := hex.EncodeToString(sum)
	there, err := objects.GetInfo(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
	case err != nil:
		return "", fmt.Errorf("object %s: %w", name, err)
	case there.Digest == digest(sum) && there.Size == uint64(size) && f.Now().Sub(there.ModTime) < f.inputRest()/2:
		return objectRef(f.inputBucket(), name), nil
	}
	info, err := objects.Put(ctx, jetstream.ObjectMeta{Name: name}, body)
	if err != nil {
		return "", fmt.Errorf("object %s: %w", name, err)
	}
	if info.Digest != digest(sum) {
		// What was put has another name than it should: nothing refers to it yet.
		return "", errors.Join(fmt.Errorf("object %s: the input changed while it was read", name), objects.Delete(ctx, name))
	}
	return objectRef(f.inputBucket(), name), nil
}

// digest is a SHA-256 as object stores write it.
func digest(sum []byte) string { return "SHA-256=" + base64.URLEncoding.EncodeToString(sum) }

// twice is a reader that can be read again from where it stood.
type twice struct {
	io.ReadSeeker
	start int64
	close func() error
}

func (t *twice) rewind() error {
	_, err := t.Seek(t.start, io.SeekStart)
	return err
}

// seekable lets an input be read twice: by its own means, or else by a temporary
// file, into which limited is read.
func seekable(limited, input io.Reader) (*twice, error) {
	if s, ok := input.(io.ReadSeeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil { // a pipe is a Seeker too, by its type alone
			return &twice{s, start, func() error { return nil }}, nil
		}
	}
	file, err := os.CreateTemp("", "weft-input-")
	if err != nil {
		return nil, err
	}
	t := &twice{file, 0, func() error { return errors.Join(file.Close(), os.Remove(file.Name())) }}
	_, err = io.Copy(file, limited)
	if err == nil {
		err = t.rewind()
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// keep keeps the first bytes of what is written, as many as a reference can hold.
type keep struct{ head *bytes.Buffer }

// Write takes all of p.
func (k *keep) Write(p []byte) (int, error) {
	if room := job.MaxInlineOutput - k.head.Len(); room > 0 {
		k.head.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// cancellable is a reader that ends with its context, between two reads.
type cancellable struct {
	ctx context.Context
	io.Reader
}

// Read reads unless the context has ended.
func (c *cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(p)
}
