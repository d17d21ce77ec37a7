package history

import (
	"slices"
	"strings"
	"testing"
)

// What a worker process was at when it died is known, and nothing is known of
// how it went.
func TestReportsOfAProcessThatDied(t *testing.T) {
	var told strings.Builder
	up := newReporter(&told)
	first := Op{Client: "p", Kind: Renew, Job: "j", Call: at(10), Worker: "p", Fence: 1}
	up.tell(report{Began: &first})
	ended := first
	ended.Return, ended.Result = at(20), OK
	up.tell(report{Ended: &ended})
	second := first
	second.Kind, second.Call = Complete, at(30)
	up.tell(report{Began: &second})
	up.tell(report{Counted: "stalls"})
	second.Return, second.Result = at(40), OK
	up.tell(report{Ended: &second})
	cut := told.String()[:told.Len()-1] // its last line was not written to its end

	w := &world{log: newLog(startClock())}
	begins := 0
	if err := w.collect(strings.NewReader(cut), func() { begins++ }); err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, op := range w.log.byJob()["j"] {
		results = append(results, string(op.Kind)+" "+op.Result)
	}
	if want := []string{"renew ok", "complete unknown"}; !slices.Equal(results, want) || begins != 2 {
		t.Errorf("%v after %d begins, want %v after 2", results, begins, want)
	}
	if r := w.figures.report(); r["stalls"] != 1 || r["operations cut off"] != 1 || r["operations"] != 2 {
		t.Errorf("figures: %v", r)
	}
	if err := w.collect(strings.NewReader("hello\n"), func() {}); err == nil {
		t.Error("a line that is no report was taken")
	}
}
