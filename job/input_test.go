package job_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weft-fabric/weft/job"
)

func TestBoundedLetsNoMorePassThanItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int64
		want  string
		over  bool
	}{
		{"", 1, "", false},
		{"abc", 4, "abc", false},
		{"abc", 3, "abc", false},
		{"abc", 2, "ab", true},
		{"abc", 0, "", true},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytewise": iotest.OneByteReader, "with its end": iotest.DataErrReader,
		} {
			got, err := io.ReadAll(job.Bounded(io.NopCloser(wrap(strings.NewReader(c.text))), c.limit))
			if string(got) != c.want || errors.Is(err, job.ErrUnopenable) != c.over || !c.over && err != nil {
				t.Errorf("%q to %d, %s: %q, %v", c.text, c.limit, name, got, err)
			}
		}
	}
}
