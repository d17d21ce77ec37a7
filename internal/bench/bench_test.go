package bench_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/bench"
	"github.com/weft-fabric/weft/internal/natstest"
)

// TestRunMeasuresAndLeavesNothing runs the whole benchmark on few jobs. What the
// figures are is no test's business; that each is there, and that nothing stays
// behind, is.
func TestRunMeasuresAndLeavesNothing(t *testing.T) {
	nc := natstest.Start(t).Connect()
	o := bench.DefaultOptions()
	o.Jobs, o.Held, o.Samples, o.Growth, o.Slots = 500, 200, 20, 100, []int{1, 64}
	if n, err := strconv.Atoi(os.Getenv("WEFT_BENCH_JOBS")); err == nil {
		o.Jobs = n
	}
	var names []string
	err := bench.Run(t.Context(), nc, o, func(f bench.Figure) {
		names = append(names, f.Name)
		if f.Value < 0 || f.Value == 0 && f.Name != "leases lost by it" {
			t.Errorf("figure %q is %v", f.Name, f.Value)
		}
		t.Logf("%-32s %10.2f %-3s ratio %.2f", f.Name, f.Value, f.Unit, f.Ratio)
	})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(names, "; ")
	for _, want := range []string{"raw compare-and-set", "raw work-queue publish", "raw consume and ack", "bulk enqueue", "bare publish", "1 process of 64 slots", "enqueue to handler, p99", "three raw trips, p99", "renewal of 200 leases", "drain, 100 behind in 10 stages", "drain, 100 behind with 100 finished", "lateness of 100 delayed jobs, p99", "through 100 connections of 1 slot"} {
		if !strings.Contains(all, want) {
			t.Errorf("no figure %q among %s", want, all)
		}
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("stream %s stays behind", name)
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]func(*bench.Options){
		"growth -1 is below 0":    func(o *bench.Options) { o.Growth = -1 },
		"held -1 is below 0":      func(o *bench.Options) { o.Held = -1 },
		"processes -1 is below 0": func(o *bench.Options) { o.Workers = -1 },
		"slots 0 is below 1":      func(o *bench.Options) { o.Slots = []int{0} },
	} {
		o := bench.DefaultOptions()
		set(&o)
		if err := o.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v, not %q", err, want)
		}
	}
}
