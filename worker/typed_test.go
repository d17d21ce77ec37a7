package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/worker"
)

type order struct {
	City string `json:"city"`
	Days int    `json:"days"`
}

func TestTypedDecodesThePayload(t *testing.T) {
	t.Parallel()
	h := worker.Typed(func(_ context.Context, _ *worker.Task, o order) ([]byte, error) {
		return fmt.Appendf(nil, "%s %d", o.City, o.Days), nil
	})
	for payload, want := range map[string]string{
		`{"city":"Oslo","days":3}`: "completed: Oslo 3",
		``:                         "completed:  0",
		`null`:                     "completed:  0",
		`{"days":"three"}`:         "discarded: payload does not decode: ",
		`[1]`:                      "discarded: payload does not decode: ",
		`{"city":`:                 "discarded: payload does not decode: ",
	} {
		task := worker.NewTask(job.Job{Spec: job.Spec{Payload: []byte(payload)}}, nil)
		if got := describe(t, h.Work(t.Context(), task)); !strings.HasPrefix(got, want) {
			t.Errorf("payload %s gave %q, want %q", payload, got, want)
		}
	}
}

func TestTypedOfNothingIsNoHandler(t *testing.T) {
	t.Parallel()
	if h := worker.Typed[int](nil); h != nil {
		t.Errorf("got %v", h)
	}
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"success":              {nil, "completed: out"},
		"plain":                {bad, "failed: bad"},
		"permanent":            {worker.Permanent(bad), "discarded: bad"},
		"wrapped permanent":    {fmt.Errorf("load: %w", worker.Permanent(bad)), "discarded: load: bad"},
		"joined permanent":     {errors.Join(errors.New("one"), worker.Permanent(bad)), "discarded: one\nbad"},
		"retry after":          {worker.RetryAfter(bad, time.Minute), "failed: bad after 1m0s"},
		"wrapped retry":        {fmt.Errorf("call: %w", worker.RetryAfter(bad, 0)), "failed: call: bad after 0s"},
		"snooze":               {worker.Snooze(time.Hour, "not open yet"), "returned: not open yet after 1h0m0s"},
		"wrapped snooze":       {fmt.Errorf("shop: %w", worker.Snooze(time.Hour, "closed")), "returned: shop: closed after 1h0m0s"},
		"outermost wins":       {worker.RetryAfter(worker.Permanent(bad), time.Second), "failed: bad after 1s"},
		"permanent of nothing": {worker.Permanent(nil), "completed: out"},
		"retry of nothing":     {worker.RetryAfter(nil, time.Second), "completed: out"},
	} {
		if got := describe(t, worker.OutcomeOf([]byte("out"), c.err)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if !errors.Is(worker.Permanent(bad), bad) || !errors.Is(worker.RetryAfter(bad, 0), bad) {
		t.Error("a marked error does not match what it wraps")
	}
}

// describe writes an outcome as one line.
func describe(t *testing.T, o job.Outcome) string {
	t.Helper()
	text := o.String() + ": " + o.Reason()
	if open := o.Open(); open != nil {
		r, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		text += string(data)
	}
	if delay, timed := o.Delay(); timed {
		text += " after " + delay.String()
	}
	return text
}
