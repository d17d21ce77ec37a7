package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weft-fabric/weft/job"
)

// errTooLarge is why a command with too much output failed.
var errTooLarge = errors.New("output is too large")

// spool holds a command's output: in memory up to a size, and then in a
// temporary file. One goroutine writes it; it is read once that one is done.
type spool struct {
	memory int             // bytes to keep in memory
	limit  int64           // bytes to take in all
	failed func(err error) // told of the first error, to stop the command

	head bytes.Buffer
	file *os.File
	size int64
	err  error
}

// readFrom reads r to its end. After an error it goes on reading and throws the
// rest away, so that the command can come to its end.
func (s *spool) readFrom(r io.Reader) {
	_, err := io.Copy(s, r)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		s.fail(fmt.Errorf("reading the output: %w", err))
	}
}

// Write keeps p. It reports no error; see err.
func (s *spool) Write(p []byte) (int, error) {
	if s.err == nil {
		s.keep(p)
	}
	return len(p), nil
}

func (s *spool) keep(p []byte) {
	s.size += int64(len(p))
	if s.size > s.limit {
		s.fail(fmt.Errorf("%w: more than %d bytes", errTooLarge, s.limit))
		return
	}
	if s.file == nil && s.head.Len()+len(p) <= s.memory {
		s.head.Write(p)
		return
	}
	if err := s.toFile(p); err != nil {
		s.fail(fmt.Errorf("spooling the output: %w", err))
	}
}

func (s *spool) toFile(p []byte) error {
	if s.file == nil {
		file, err := unnamedFile()
		if err != nil {
			return err
		}
		s.file = file
		if _, err := file.Write(s.head.Bytes()); err != nil {
			return err
		}
		s.head = bytes.Buffer{}
	}
	_, err := s.file.Write(p)
	return err
}

// unnamedFile is a temporary file that is removed while it is open: nobody is
// told when an outcome has been stored, and a worker may be killed at any time.
// The runtime closes the file when the outcome is no longer used, which frees
// its space.
func unnamedFile() (*os.File, error) {
	file, err := os.CreateTemp("", "weft-output-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (s *spool) fail(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	if s.file != nil {
		_ = s.file.Close() // the output is given up
	}
	s.failed(err)
}

// outcome is a success with what was spooled.
func (s *spool) outcome() job.Outcome {
	if s.file == nil {
		return job.CompletedWith(s.head.Bytes())
	}
	file, size := s.file, s.size
	return job.CompletedFrom(func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(file, 0, size)), nil
	})
}
