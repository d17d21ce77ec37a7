package fabric_test

// These tests prove that what is there is left as it is: by opening the fabric
// once more, by an enqueue under an id that has run, by a restart after a record's
// time to live.

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// everything is the state of a stage's stream, of its consumer and of the bucket,
// down to sequences and settings.
func everything(t *testing.T, nc *nats.Conn, stage string) string {
	t.Helper()
	all := []any{consumerConfig(t, workQueue(t, nc, stage), "runners")}
	for _, name := range []string{"KV_weft", "WEFT_" + stage} {
		info, err := serverStream(t, nc, name).Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.State, info.Config)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestOpeningAgainChangesNothing(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	nc := srv.Connect()
	f := open(t, nc)
	for i := range 20 {
		enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x", AvailableAt: f.Now().Add(time.Duration(i) * time.Hour)})
	}
	st := workQueue(t, nc, "work")
	settings, before := everything(t, nc, "work"), offers(t, st)
	for range 3 {
		again := open(t, srv.Connect())
		if _, err := again.Stage(t.Context(), "work"); err != nil {
			t.Fatal(err)
		}
	}
	if after := everything(t, nc, "work"); settings != after {
		t.Errorf("it was\n%s\nand is\n%s", settings, after)
	}
	if after := offers(t, st); len(before) != 20 || !maps.Equal(before, after) {
		t.Errorf("the offers were %v and are %v", before, after)
	}
}

// A job that has ended and is still kept is enqueued again: the answer names its
// state, and it is not run again.
func TestEnqueueOfAJobThatHasEndedNamesItsState(t *testing.T) {
	t.Parallel()
	for state, outcome := range map[job.State]job.Outcome{
		job.StateSucceeded: job.Completed("data:,done"),
		job.StateFailed:    job.Discarded("broken"),
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			nc := natstest.Conn(t)
			f := open(t, nc)
			r := runner(t, f, "")
			spec := job.Spec{ID: "kept", Stage: "work", InputRef: "data:,x"}
			enqueue(t, f, spec)
			settle(t, r, claim(t, r, "work"), outcome)
			if j := enqueue(t, f, spec); j.State != state {
				t.Errorf("the same spec again gives %s", j.State)
			}
			spec.InputRef = "data:,other"
			_, err := f.Enqueue(t.Context(), spec)
			if !errors.Is(err, job.ErrDuplicateJob) || !strings.Contains(err.Error(), string(state)) {
				t.Errorf("another spec gives %v", err)
			}
			if left := subjectsOf(t, workQueue(t, nc, "work"), "weft.>"); len(left) != 0 {
				t.Errorf("it was offered again: %v", left)
			}
		})
	}
}

// The record of an ended job goes when its time to live is over, though its item
// was left behind and the server restarts before, or is down just then.
func TestRecordWhoseTimeIsOverIsNotClaimableAfterARestart(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]func(t *testing.T, srv *natstest.Server, gone func() bool){
		"expired_before": func(t *testing.T, srv *natstest.Server, gone func() bool) {
			natstest.Eventually(t, patience, "the record expires", gone)
			srv.Restart()
		},
		"expired_while_down": func(t *testing.T, srv *natstest.Server, gone func() bool) {
			srv.Stop()
			down := time.Now()
			natstest.Eventually(t, patience, "its time passes", func() bool { return time.Since(down) > 2500*time.Millisecond })
			srv.Restart()
			natstest.Eventually(t, patience, "the record is gone", gone)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			f := open(t, srv.Connect())
			j := enqueue(t, f, job.Spec{ID: "ended", Stage: "work", InputRef: "data:,x"})
			bucket := fabric.Bucket(f)
			rec, err := bucket.Load(t.Context(), j.ID)
			if err != nil {
				t.Fatal(err)
			}
			ended, err := rec.Job.Cancel(0, "not needed", f.Now())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bucket.Save(t.Context(), ended, rec.Revision, 2*time.Second); err != nil {
				t.Fatal(err)
			}
			restart(t, srv, func() bool {
				_, err := bucket.Load(t.Context(), j.ID)
				return errors.Is(err, job.ErrMissingJob)
			})
			var ran handled
			work(t, f, "work", 2, counted(&ran))
			awaitAll(t, f, patience, enqueue(t, f, job.Spec{Stage: "work", InputRef: "data:,x"}).ID)
			if _, err := f.Get(t.Context(), j.ID); ran.of(j.ID) != 0 || !errors.Is(err, job.ErrMissingJob) {
				t.Errorf("it ran %d times: %v", ran.of(j.ID), err)
			}
		})
	}
}
