package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/vincent-petithory/dataurl"

	"github.com/weft-fabric/weft/job"
)

// comparedIDs is how many ids of a file are remembered to compare the lines that
// share one. In a longer file it is the fabric that finds out, with duplicate_job.
const comparedIDs = 200_000

// specChecker turns the lines of one file into specs that can be enqueued. It
// remembers what it has seen, so each reading of the file needs a new one.
type specChecker struct {
	stage       string
	maxAttempts int64         // for the check of specs that do not say
	timeout     time.Duration // for specs that do not say
	trace       job.Trace     // for specs that do not say; it makes no other id
	derive      bool          // make ids from lines, equal ones counted, so that the same lines have the same ids
	number      bool          // make ids from lines and their numbers, so that the same file has the same ids

	ids      map[string]seenSpec
	awaited  map[string]int // ids that lines depend on and that none before had, and the first such line
	ordinals map[[sha256.Size]byte]int
}

type seenSpec struct {
	line int
	sum  [sha256.Size]byte
}

// accept checks one line, given that it parsed, and fills in what the command
// gives.
func (c *specChecker) accept(line specLine) (job.Spec, error) {
	spec := line.spec
	if line.err != nil {
		return spec, line.err
	}
	if spec.Stage != "" && spec.Stage != c.stage {
		return spec, job.Invalid("stage %q is not the command's, %q; leave it out, or use a file for each stage", spec.Stage, c.stage)
	}
	spec.Stage = c.stage
	var sum [sha256.Size]byte // costs more than all the rest
	if spec.ID != "" || c.derive || c.number {
		sum = sha256.Sum256(canonical(spec))
	}
	if err := c.checkID(spec.ID, line.number, sum); err != nil {
		return spec, err
	}
	switch {
	case spec.ID != "":
	case c.derive:
		spec.ID = c.deriveID(sum)
	case c.number:
		spec.ID = idFrom("weft enqueue", sum, line.number)
	}
	if spec.Timeout == 0 {
		spec.Timeout = c.timeout
	}
	if spec.Trace.IsZero() {
		spec.Trace = c.trace
	}
	if err := c.checkOrder(spec, line.number); err != nil {
		return spec, err
	}
	return spec, checkSpec(spec, c.maxAttempts)
}

// checkOrder refuses a line that an earlier one depends on: when that is enqueued
// there must be such a job.
func (c *specChecker) checkOrder(spec job.Spec, number int) error {
	if first, ok := c.awaited[spec.ID]; ok && spec.ID != "" {
		return job.Invalid("line %d depends on id %q; move this line before that one", first, spec.ID)
	}
	for _, dep := range spec.Dependencies {
		_, before := c.ids[dep]
		if _, known := c.awaited[dep]; before || known || len(c.awaited) == comparedIDs {
			continue
		}
		if c.awaited == nil {
			c.awaited = map[string]int{}
		}
		c.awaited[dep] = number
	}
	return nil
}

// checkID refuses an id that an earlier line gave to another spec. The same line
// twice is one job.
func (c *specChecker) checkID(id string, number int, sum [sha256.Size]byte) error {
	if id == "" {
		return nil
	}
	if c.ids == nil {
		c.ids = map[string]seenSpec{}
	}
	first, ok := c.ids[id]
	if !ok {
		if len(c.ids) < comparedIDs {
			c.ids[id] = seenSpec{number, sum}
		}
		return nil
	}
	if first.sum != sum {
		return job.Invalid("id %q is that of line %d, which has another spec", id, first.line)
	}
	return nil
}

// deriveID names a job by its stage, its line, and how many equal lines came
// before it. The sum is of the line with its stage.
func (c *specChecker) deriveID(sum [sha256.Size]byte) string {
	if c.ordinals == nil {
		c.ordinals = map[[sha256.Size]byte]int{}
	}
	ordinal := c.ordinals[sum]
	c.ordinals[sum]++
	return idFrom("weft run", sum, ordinal)
}

// idFrom is the id that a command gives to the n-th of a line.
func idFrom(command string, sum [sha256.Size]byte, n int) string {
	named := sha256.Sum256(fmt.Appendf(nil, "%s\n%x\n%d", command, sum, n))
	return "jb_" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(named[:20])
}

// canonical is a spec as JSON in which neither the order of members nor blanks
// make a difference.
func canonical(spec job.Spec) []byte {
	text := spec.AppendJSON(nil)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return text // a payload that is not JSON, which the check refuses
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return sorted
}

// checkSpec applies the rules for specs, as though what the fabric fills in were
// there, and looks into the references that Weft opens itself.
func checkSpec(spec job.Spec, maxAttempts int64) error {
	if spec.ID == "" {
		spec.ID = "jb_00000000000000000000000000"
	}
	if spec.MaxAttempts == 0 {
		spec.MaxAttempts = maxAttempts
	}
	if err := spec.Check(); err != nil {
		return err
	}
	return checkRef(spec.InputRef)
}

// checkRef refuses a reference that says it is one of the two that Weft can open
// and is not. All others are opaque.
func checkRef(ref string) error {
	scheme, rest, ok := strings.Cut(ref, ":")
	switch {
	case !ok:
		return nil
	case strings.EqualFold(scheme, "data"):
		if _, err := dataurl.DecodeString("data:" + rest); err != nil {
			return job.Invalid("input_ref is no data: URI of RFC 2397: %s; one such as data:,hello is", err)
		}
	case strings.EqualFold(scheme, "nats-obj"):
		bucket, name, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
		if !strings.HasPrefix(rest, "//") || bucket == "" || name == "" {
			return job.Invalid("input_ref %.80q is not nats-obj://BUCKET/NAME", ref)
		}
	}
	return nil
}
