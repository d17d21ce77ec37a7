// Package fault names the mistakes that can be planted in the fabric, each of
// which breaks one rule of its protocol. The history test plants them to show
// that its judge would notice. Nothing else sets them: the type is internal, and
// a fabric without a plan makes none.
package fault

// Plan says which rules are broken. The zero Plan breaks none.
type Plan struct {
	// AckBeforeWrite acknowledges a settled job's item before its record is
	// written, so that a worker that dies in between leaves neither.
	AckBeforeWrite bool
	// NoRevisionCheck writes records whatever revision they are at, so that the
	// last writer wins.
	NoRevisionCheck bool
	// InProgressWithoutWrite extends a renewed lease in the work queue alone, so
	// that the record's lease runs out under a worker that believes it holds it.
	InProgressWithoutWrite bool
}
