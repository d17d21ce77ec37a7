package main

import (
	"errors"
	"fmt"
	"iter"

	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// shownErrors is how many broken lines are reported one by one.
const shownErrors = 20

// specBatch is a file of specs that has been checked as a whole.
type specBatch struct {
	file   *specFile
	fresh  func() *specChecker
	count  int // lines that passed
	broken int // lines that did not
}

// numbered is a spec and the line it is from.
type numbered struct {
	line    int
	spec    job.Spec
	derived bool // the spec's id was made from the line
}

// checkBatch reads the whole file before anything of it is enqueued, and tells
// report of each broken line, the first ones in full. A nil error means that
// count lines can be enqueued; any broken line is an error unless keepGoing.
func checkBatch(file *specFile, fresh func() *specChecker, keepGoing bool, report func(error)) (*specBatch, error) {
	b := &specBatch{file: file, fresh: fresh}
	checker := fresh()
	for line, err := range file.lines() {
		if err != nil {
			return nil, err
		}
		if _, err := checker.accept(line); err != nil {
			if b.broken++; b.broken <= shownErrors {
				report(b.at(line.number, err))
			}
			continue
		}
		b.count++
	}
	if more := b.broken - shownErrors; more > 0 {
		report(fmt.Errorf("%s: and %d more broken lines", file.name, more))
	}
	if b.broken > 0 && !keepGoing {
		return nil, app.Usage("%s: %d of %d lines are broken, so nothing was enqueued; mend them, or give --keep-going to enqueue the others", file.name, b.broken, b.broken+b.count)
	}
	return b, nil
}

// noteEmpty says of a file without specs that this is why nothing happens.
func (p *program) noteEmpty(b *specBatch) {
	if b.count+b.broken == 0 {
		p.note("no specs in %s", b.file.name)
	}
}

// at says where an error is.
func (b *specBatch) at(line int, err error) error {
	return fmt.Errorf("%s:%d: %w", b.file.name, line, err)
}

// errChanged: the second reading of a file did not find what the first one did.
var errChanged = errors.New("the file changed while it was read")

// specs reads the file again and gives the specs that passed.
func (b *specBatch) specs() iter.Seq2[numbered, error] {
	return func(yield func(numbered, error) bool) {
		checker, given := b.fresh(), 0
		for line, err := range b.file.lines() {
			if err != nil {
				yield(numbered{}, err)
				return
			}
			spec, err := checker.accept(line)
			if err != nil {
				continue // reported by the first reading
			}
			if given++; given > b.count {
				break
			}
			if !yield(numbered{line.number, spec, line.spec.ID != spec.ID}, nil) {
				return
			}
		}
		if given != b.count {
			yield(numbered{}, fmt.Errorf("%s: %w", b.file.name, errChanged))
		}
	}
}
