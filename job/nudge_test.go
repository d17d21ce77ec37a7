package job_test

import (
	"testing"

	"github.com/weft-fabric/weft/job"
)

func TestNudgeKeepsAHintForWhoComesLater(t *testing.T) {
	t.Parallel()
	var n job.Nudge
	calls := 0
	count := func() { calls++ }
	n.Hint()
	n.Hint()
	n.OnHint(count)
	if calls != 1 {
		t.Errorf("two hints before made %d calls, want 1", calls)
	}
	n.Hint()
	if calls != 2 {
		t.Errorf("a hint after made %d calls in all, want 2", calls)
	}
	var none *job.Nudge
	none.OnHint(count) // never hints
	if calls != 2 {
		t.Errorf("no nudge made a call")
	}
}
