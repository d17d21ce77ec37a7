package job

import (
	"errors"
	"fmt"
	"io"
)

// ErrUnopenable is an input that no later attempt could open either: its reference
// is malformed or of a scheme that nobody opens, what it names is not there, or it
// is too large. Its job fails for good, whatever attempts are left. An input that a
// server refused, or could not give, is another error and is tried again.
var ErrUnopenable = errors.New("cannot be opened")

// ErrAbsent is the ErrUnopenable of what is not there: an object or a page that is
// gone, or never was.
var ErrAbsent = fmt.Errorf("%w: it is not there", ErrUnopenable)

// DefaultMaxInput is how many bytes an input may have unless somebody says
// otherwise: 1 GiB.
const DefaultMaxInput = 1 << 30

// Bounded lets at most limit bytes of body pass. A read beyond them fails with
// ErrUnopenable, so that nobody takes a part for the whole.
func Bounded(body io.ReadCloser, limit int64) io.ReadCloser {
	return &bounded{ReadCloser: body, limit: limit, left: limit}
}

type bounded struct {
	io.ReadCloser
	limit, left int64
}

// Read reads one byte more than is left, to tell an input that ends at the limit
// from one that goes on.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge()
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, b.tooLarge()
	}
	return n, err
}

func (b *bounded) tooLarge() error {
	return fmt.Errorf("%w: it has more than %d bytes, which is the limit", ErrUnopenable, b.limit)
}
