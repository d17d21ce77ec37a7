package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/weft-fabric/weft/job"
)

// longestSpecLine bounds a line of a file of specs. It is above job.MaxSpecSize,
// which counts the spec as it is stored, without blanks and escapes.
const longestSpecLine = 8 * job.MaxSpecSize

// specFile is a file of specs, one JSON object a line, that can be read more
// than once.
type specFile struct {
	name  string // as errors name it
	file  *os.File
	spool bool // to be removed: a copy of what cannot be read twice
}

// specLine is one line that is not blank. spec is valid if err is nil.
type specLine struct {
	number int
	spec   job.Spec
	err    error
}

// openSpecs opens a file by name; "-" is stdin. What is no regular file, such as
// a pipe, is copied first.
func openSpecs(name string, stdin io.Reader) (*specFile, error) {
	if name == "-" {
		return spoolSpecs("stdin", stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, errors.Join(err, file.Close())
	case info.IsDir():
		return nil, errors.Join(fmt.Errorf("%s is a directory, not a file of specs", name), file.Close())
	case !info.Mode().IsRegular():
		f, err := spoolSpecs(name, file)
		return f, errors.Join(err, file.Close())
	}
	return &specFile{name: name, file: file}, nil
}

func spoolSpecs(name string, from io.Reader) (*specFile, error) {
	file, err := os.CreateTemp("", "weft-specs-")
	if err != nil {
		return nil, err
	}
	f := &specFile{name: name, file: file}
	if os.Remove(file.Name()) != nil { // so that nothing stays behind, whatever ends the process
		f.spool = true
	}
	if _, err := io.Copy(file, from); err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", name, err), f.Close())
	}
	return f, nil
}

// Close closes the file, and removes it if it is a copy.
func (f *specFile) Close() error {
	err := f.file.Close()
	if f.spool {
		err = errors.Join(err, os.Remove(f.file.Name()))
	}
	return err
}

// lines reads the file from its beginning. A line that is wrong comes with its
// error, and reading goes on; a file that cannot be read is the second value,
// and the last.
func (f *specFile) lines() iter.Seq2[specLine, error] {
	return func(yield func(specLine, error) bool) {
		if _, err := f.file.Seek(0, io.SeekStart); err != nil {
			yield(specLine{}, err)
			return
		}
		r := bufio.NewReaderSize(f.file, 64<<10)
		for number := 1; ; number++ {
			text, long, err := readLine(r)
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte("\uFEFF"))
			}
			text = bytes.TrimSpace(text)
			if (len(text) > 0 || long) && !yield(parseLine(number, text, long), nil) {
				return
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(specLine{}, fmt.Errorf("reading %s: %w", f.name, err))
				return
			}
		}
	}
}

// readLine reads up to and with the next newline. Of a line that is too long it
// gives nothing, but reads it to its end.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > longestSpecLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

func parseLine(number int, text []byte, long bool) specLine {
	if long {
		return specLine{number: number, err: fmt.Errorf("the line is longer than %d bytes; a spec may have %d, put the input where input_ref can name it", longestSpecLine, job.MaxSpecSize)}
	}
	spec, err := parseSpec(text)
	return specLine{number: number, spec: spec, err: err}
}

// parseSpec reads a spec that a person wrote, and is strict where the wire is
// not: what it does not know is most likely misspelt.
func parseSpec(text []byte) (job.Spec, error) {
	if !utf8.Valid(text) {
		return job.Spec{}, errors.New("the line is not UTF-8")
	}
	var spec job.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return job.Spec{}, err
	}
	if unknown := spec.UnknownMembers(); len(unknown) > 0 {
		return job.Spec{}, fmt.Errorf("unknown member %q%s", unknown[0], hint(unknown[0]))
	}
	if spec.MaxAttempts == 0 && givesMaxAttempts(text) {
		return job.Spec{}, job.Invalid("max_attempts must be positive; leave it out for the default")
	}
	return spec, nil
}

// hint says why a member of a record is not one of a spec.
func hint(member string) string {
	var j job.Job
	probe := fmt.Sprintf(`{%q:null,"id":"x","state":"waiting"}`, member)
	if json.Unmarshal([]byte(probe), &j) == nil && len(j.UnknownMembers()) == 0 {
		return ", which only the fabric sets"
	}
	return ""
}

// givesMaxAttempts tells a max_attempts of 0 from none.
func givesMaxAttempts(text []byte) bool {
	if !bytes.Contains(text, []byte("max_attempts")) {
		return false
	}
	var probe map[string]json.RawMessage
	if json.Unmarshal(text, &probe) != nil {
		return false
	}
	raw, ok := probe["max_attempts"]
	return ok && strings.TrimSpace(string(raw)) != "null"
}
