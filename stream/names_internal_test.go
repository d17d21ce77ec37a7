package stream

// These tests prove that an item's subject and what is read from it belong
// together, and that a subject of any other kind is not taken for an item's.

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weft-fabric/weft/job"
)

func TestItemSubjectsParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := names{rapid.StringMatching(`[a-z][a-z0-9_-]{0,31}`).Draw(t, "namespace")}
		stage := rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,63}`).Draw(t, "stage")
		id := rapid.StringMatching(`[A-Za-z0-9_=-]{1,128}`).Draw(t, "id")
		lane := rapid.IntRange(job.HighestPriority, job.LowestPriority).Draw(t, "lane")
		subject := n.item(stage, lane, id)
		gotStage, gotLane, gotID, ok := n.parse(subject)
		if !ok || gotStage != stage || gotLane != lane || gotID != id {
			t.Fatalf("%s parses as %q %d %q %t", subject, gotStage, gotLane, gotID, ok)
		}
		if !covered(subject, n.subjects(stage)) || !covered(n.later(stage, id), n.subjects(stage)) {
			t.Fatalf("%s is not among %q", subject, n.subjects(stage))
		}
		if lastToken(subject) != id || lastToken(n.later(stage, id)) != id {
			t.Fatalf("%s is of %s", subject, lastToken(subject))
		}
		if _, _, _, ok := n.parse(n.later(stage, id)); ok {
			t.Fatal("a schedule is taken for an item")
		}
		if _, _, _, ok := (names{"x" + n.namespace}).parse(subject); ok {
			t.Fatal("another namespace's item is taken for one's own")
		}
	})
}

// covered reports whether one of the patterns matches, as the server matches.
func covered(subject string, patterns []string) bool {
	tokens := strings.Split(subject, ".")
	for _, pattern := range patterns {
		parts := strings.Split(pattern, ".")
		match := len(parts) == len(tokens)
		for i := 0; match && i < len(parts); i++ {
			match = parts[i] == "*" || parts[i] == tokens[i]
		}
		if match {
			return true
		}
	}
	return false
}

func TestOtherSubjectsAreNoItems(t *testing.T) {
	t.Parallel()
	n := names{"weft"}
	for _, subject := range []string{
		"", "weft", "weft.", "weft.work", "weft.work.hash", "weft.work.hash.a.b", "weft.later.hash.a",
		"weft.lane.hash.a", "weft.lane.hash.x.a", "weft.lane.hash..a", "weft.lane.hash.1.a.b",
		"weft.event.job.a", "weftwork.hash.a", "other.work.hash.a",
	} {
		if stage, lane, id, ok := n.parse(subject); ok {
			t.Errorf("%q parses as %q %d %q", subject, stage, lane, id)
		}
	}
}
