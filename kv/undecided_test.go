package kv_test

// These tests prove that undecided is not refused: a write whose answer was lost
// finds out whether it happened, and says that it does not know only when its
// time is over.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// answer is what a write under way has come to.
type answer struct {
	revision uint64
	err      error
}

func swapping(ctx context.Context, b *kv.Bucket, w kv.Write) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		revision, err := b.Swap(ctx, w)
		done <- answer{revision, err}
	}()
	return done
}

func await(t *testing.T, done <-chan answer) answer {
	t.Helper()
	select {
	case a := <-done:
		return a
	case <-time.After(2 * soon):
		t.Fatal("no answer")
		return answer{}
	}
}

func TestLostAnswerOfACreateIsRecognised(t *testing.T) {
	t.Parallel()
	through, direct, p := behindProxy(t)
	p.Mute()
	done := swapping(t.Context(), through, kv.Write{Key: "job.a", Value: []byte("x")})
	natstest.Eventually(t, soon, "the write arrives", func() bool { return get(t, direct, "job.a").Exists() })
	p.Heal()
	a := await(t, done)
	if e := get(t, direct, "job.a"); a.err != nil || a.revision != e.Revision || string(e.Value) != "x" {
		t.Fatalf("%+v, and the key is %+v", a, e)
	}
}

func TestLostAnswerOfAnUpdateIsRecognised(t *testing.T) {
	t.Parallel()
	through, direct, p := behindProxy(t)
	first := swap(t, through, kv.Write{Key: "job.a", Value: []byte("x")})
	p.Mute()
	done := swapping(t.Context(), through, kv.Write{Key: "job.a", Value: []byte("y"), Revision: first})
	natstest.Eventually(t, soon, "the write arrives", func() bool { return get(t, direct, "job.a").Revision != first })
	p.Heal()
	a := await(t, done)
	if e := get(t, direct, "job.a"); a.err != nil || a.revision != e.Revision || string(e.Value) != "y" {
		t.Fatalf("%+v, and the key is %+v", a, e)
	}
}

func TestLostAnswerOfADeleteIsRecognised(t *testing.T) {
	t.Parallel()
	through, direct, p := behindProxy(t)
	revision := swap(t, through, kv.Write{Key: "leader.keeper", Value: []byte("x")})
	p.Mute()
	done := make(chan error, 1)
	go func() { done <- through.Delete(t.Context(), "leader.keeper", revision) }()
	natstest.Eventually(t, soon, "the delete arrives", func() bool { return get(t, direct, "leader.keeper").Marker })
	p.Heal()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * soon):
		t.Fatal("no answer")
	}
}

func TestLostAnswerAfterWhichOthersWroteIsAConflict(t *testing.T) {
	t.Parallel()
	through, direct, p := behindProxy(t)
	p.Mute()
	done := swapping(t.Context(), through, kv.Write{Key: "job.a", Value: []byte("x")})
	natstest.Eventually(t, soon, "the write arrives", func() bool { return get(t, direct, "job.a").Exists() })
	revision := swap(t, direct, kv.Write{Key: "job.a", Value: []byte("y"), Revision: get(t, direct, "job.a").Revision})
	p.Heal()
	a := await(t, done)
	conflict, ok := errors.AsType[*kv.Conflict](a.err)
	if !ok || conflict.Current.Revision != revision || string(conflict.Current.Value) != "y" {
		t.Fatalf("%+v", a)
	}
}

func TestEqualValueOfSomebodyElseIsNotMine(t *testing.T) {
	t.Parallel()
	through, direct, p := behindProxy(t)
	p.Stall()
	done := swapping(t.Context(), through, kv.Write{Key: "job.a", Value: []byte("x")})
	swap(t, direct, kv.Write{Key: "job.a", Value: []byte("x")})
	p.Heal()
	if a := await(t, done); a.err == nil {
		t.Fatal("took another's write of the same value for its own")
	} else if _, ok := errors.AsType[*kv.Conflict](a.err); !ok {
		t.Fatal(a.err)
	}
}

func TestWriteIsUndecidedWhenItsTimeEnds(t *testing.T) {
	t.Parallel()
	through, direct, p := behindProxy(t)
	for name, silence := range map[string]func(){"lost answer": p.Mute, "no network": p.Stall, "no connection": p.Cut} {
		silence()
		began := time.Now()
		_, err := through.Swap(within(t, 300*time.Millisecond), kv.Write{Key: "job.a", Value: []byte("x"), Revision: get(t, direct, "job.a").Revision})
		if !errors.Is(err, kv.ErrUndecided) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > soon/2 {
			t.Errorf("%s: took %s", name, took)
		}
		p.Heal()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := through.Swap(ctx, kv.Write{Key: "job.a", Value: []byte("x")}); !errors.Is(err, kv.ErrUndecided) || !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	// The bucket works again, and an undecided write may have happened or not.
	revision := get(t, through, "job.a").Revision
	if _, err := through.Swap(t.Context(), kv.Write{Key: "job.a", Value: []byte("y"), Revision: revision}); err != nil {
		if _, late := errors.AsType[*kv.Conflict](err); !late {
			t.Fatal(err)
		}
	}
}

func TestReadWaitsForTheServerWhileItsTimeLasts(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	b := openBucket(t, s.Connect(), config)
	swap(t, b, kv.Write{Key: "job.a", Value: []byte("x")})
	s.Stop()
	if _, err := b.Get(within(t, 200*time.Millisecond), "job.a"); err == nil {
		t.Fatal("read from a server that is down")
	}
	read := make(chan kv.Entry, 1)
	go func() {
		e, err := b.Get(t.Context(), "job.a")
		if err != nil {
			t.Error(err)
		}
		read <- e
	}()
	s.Restart()
	select {
	case e := <-read:
		if string(e.Value) != "x" {
			t.Fatalf("%+v", e)
		}
	case <-time.After(2 * soon):
		t.Fatal("no answer after the restart")
	}
}

func TestWriteWaitsForTheServerWhileItsTimeLasts(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	b := openBucket(t, s.Connect(), config)
	s.Stop()
	done := swapping(t.Context(), b, kv.Write{Key: "job.a", Value: []byte("x")})
	s.Restart()
	if a := await(t, done); a.err != nil || get(t, b, "job.a").Revision != a.revision {
		t.Fatalf("%+v", a)
	}
}

func TestLostAnswerOfABatchIsRecognised(t *testing.T) {
	t.Parallel()
	through, direct, p := behindProxy(t)
	p.Mute()
	type saved struct {
		rec kv.Record
		err error
	}
	done := make(chan saved, 1)
	go func() {
		rec, err := through.SaveWith(t.Context(), newJob(t, "a"), kv.Write{Key: "current.k", Value: []byte("a")})
		done <- saved{rec, err}
	}()
	natstest.Eventually(t, soon, "the batch arrives", func() bool { return get(t, direct, "job.a").Exists() })
	p.Heal()
	select {
	case s := <-done:
		if s.err != nil || s.rec.Revision != get(t, direct, "job.a").Revision {
			t.Fatalf("%+v", s)
		}
	case <-time.After(2 * soon):
		t.Fatal("no answer")
	}
	if rec, err := direct.Load(t.Context(), "a"); err != nil || rec.Job.State != job.StateWaiting {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestBatchIsUndecidedWhenItsTimeEnds(t *testing.T) {
	t.Parallel()
	through, _, p := behindProxy(t)
	p.Stall()
	_, err := through.SaveWith(within(t, 300*time.Millisecond), newJob(t, "a"), kv.Write{Key: "current.k", Value: []byte("a")})
	if !errors.Is(err, kv.ErrUndecided) {
		t.Fatal(err)
	}
}
