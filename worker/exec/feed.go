package exec

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// feed is the input on its way to a command's stdin. It remembers an error of the
// input: a command that has seen part of its input must not succeed, however it
// exits.
type feed struct {
	from   io.ReadCloser
	failed func(error) // told of the error, to stop the command

	over atomic.Bool // set when nobody reads any more; errors after that do not count
	err  error       // of the copying goroutine, until that has ended
}

// Read passes the input on.
func (f *feed) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !f.over.Load() {
		f.err = fmt.Errorf("reading the input: %w", err)
		f.failed(f.err)
	}
	return n, err
}

// end frees a reading goroutine once the command has ended.
func (f *feed) end() {
	f.over.Store(true)
	_ = f.from.Close() // what it would say, the command did not wait for
}
