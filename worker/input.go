package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weft-fabric/weft/job"
)

// Inputs open what an input_ref names. A *fabric.Fabric does.
type Inputs interface {
	// OpenRef opens a reference. It fails with job.ErrUnopenable if no later attempt
	// could open it either. The reader ends when ctx does; the caller closes it.
	OpenRef(ctx context.Context, ref string) (io.ReadCloser, error)
	// LinkRef makes a link that reads what the reference names for a while, without
	// credentials. It is empty for a reference that has none.
	LinkRef(ctx context.Context, ref string) (string, error)
}

// errNoInputs is an input that is asked for of a worker that opens none.
var errNoInputs = errors.New("this worker opens no inputs: its Options.Inputs is nil")

// Input opens what the job's input_ref names, whatever its scheme, as a stream of
// at most Options.MaxInput bytes. What a read gives before the end is not known to
// be the input: only io.EOF says so. ctx is the handler's; the caller closes the
// reader.
//
// An error, of Input or of a read, after which no later attempt could do better
// is Permanent: returned by a function of Typed, or by OutcomeOf, it ends the
// job. Any other is a failed attempt.
func (t *Task) Input(ctx context.Context) (io.ReadCloser, error) {
	if t.inputs == nil || t.inputs.from == nil {
		return nil, errNoInputs
	}
	body, err := t.inputs.from.OpenRef(ctx, t.job.InputRef)
	if err != nil {
		return nil, lasting(fmt.Errorf("input: %w", err))
	}
	return &input{job.Bounded(body, t.inputs.limit)}, nil
}

// InputLink makes a link that reads the job's input for a while without
// credentials, as of an s3:// reference, for a tool that fetches it itself. It is
// empty for a scheme that has none. A link is a secret: do not log it, nor put it
// into an output or a reason.
func (t *Task) InputLink(ctx context.Context) (string, error) {
	if t.inputs == nil || t.inputs.from == nil {
		return "", nil
	}
	link, err := t.inputs.from.LinkRef(ctx, t.job.InputRef)
	if err != nil {
		return "", lasting(fmt.Errorf("input link: %w", err))
	}
	return link, nil
}

// lasting marks an error that stays as Permanent.
func lasting(err error) error {
	if errors.Is(err, job.ErrUnopenable) {
		return Permanent(err)
	}
	return err
}

// inputs is what all tasks of a worker share.
type inputs struct {
	from  Inputs
	limit int64
}

// input is an input that is being read.
type input struct{ io.ReadCloser }

// Read marks the error of an input that is too large.
func (i *input) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = lasting(fmt.Errorf("input: %w", err))
	}
	return n, err
}
