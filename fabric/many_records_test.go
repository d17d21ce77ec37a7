package fabric_test

// These measure what it takes to look at very many records: a page of a list, and
// all stages. Their limit is what a person still takes for at once.

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// atOnce is how long a look may take.
const atOnce = 500 * time.Millisecond

// manyRecords is how many there are: a million with WEFT_TEST_MILLION=1.
func manyRecords() int {
	if os.Getenv("WEFT_TEST_MILLION") != "" {
		return 1_000_000
	}
	return 200_000
}

func BenchmarkLookingAtManyRecords(b *testing.B) {
	const stages = 100
	n := manyRecords()
	nc := natstest.Start(b).Connect()
	f, err := fabric.Open(b.Context(), nc, fabric.DefaultOptions())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(f.Close)
	began := time.Now()
	specs := func(yield func(job.Spec) bool) {
		for i := range n {
			if !yield(job.Spec{ID: fmt.Sprintf("j%07d", i), Stage: fmt.Sprintf("s%02d", i%stages), InputRef: "data:,x"}) {
				return
			}
		}
	}
	if err := f.EnqueueMany(b.Context(), specs, func(e fabric.Enqueued) error { return e.Err }); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d records enqueued in %s", n, time.Since(began))
	page := func(b *testing.B, filter fabric.Filter, want int) {
		for b.Loop() {
			given := 0
			for _, err := range f.Page(b.Context(), filter) {
				if err != nil {
					b.Fatal(err)
				}
				given++
			}
			if given != want {
				b.Fatalf("%d jobs, want %d", given, want)
			}
		}
	}
	look := func(name string, limit time.Duration, do func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			do(b)
			if each := b.Elapsed() / time.Duration(b.N); limit > 0 && each > limit {
				b.Errorf("%s each, want at most %s", each, limit)
			}
		})
	}
	last := uint64(0)
	for listed, err := range f.Page(b.Context(), fabric.Filter{Limit: n / 2}) {
		if err != nil {
			b.Fatal(err)
		}
		last = listed.Cursor
	}
	look("first page", atOnce, func(b *testing.B) { page(b, fabric.Filter{Limit: 50}, 50) })
	look("page in the middle", atOnce, func(b *testing.B) { page(b, fabric.Filter{Limit: 50, After: last}, 50) })
	look("page of a stage", atOnce, func(b *testing.B) { page(b, fabric.Filter{Stage: "s42", Limit: 50}, 50) })
	look("whole list for nothing", 0, func(b *testing.B) {
		page(b, fabric.Filter{States: []job.State{job.StateFailed}, Limit: 50}, 0)
	})
	look("all stages", atOnce, func(b *testing.B) {
		for b.Loop() {
			all, err := f.Stages(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			waiting := 0
			for _, s := range all {
				waiting += s.Waiting
			}
			if len(all) != stages || waiting != n {
				b.Fatalf("%d stages with %d waiting jobs", len(all), waiting)
			}
		}
	})
}
