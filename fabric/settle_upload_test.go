package fabric_test

// These tests prove that an output may take longer to store than its lease lasts,
// and that storing it ends when the job is lost meanwhile.

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

// slowOutput is an output that is being written while it is stored.
func slowOutput() (job.Outcome, *io.PipeWriter) {
	body, w := io.Pipe()
	return job.CompletedFrom(func() (io.ReadCloser, error) { return body, nil }), w
}

// settling settles a claim in the background.
func settling(t *testing.T, act func() error) (ended func() error) {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- act() }()
	return func() error {
		t.Helper()
		select {
		case err := <-result:
			return err
		case <-time.After(patience):
			t.Fatal("not settled")
			return nil
		}
	}
}

func TestLeaseIsKeptWhileALargeOutputIsStored(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, other := join(t, s, lease(short)), join(t, s, lease(short))
	keep(t, other.Fabric)
	r := runner(t, p.Fabric, "mine")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	outcome, body := slowOutput()
	ended := settling(t, func() error { return r.Settle(t.Context(), c, outcome) })
	part := strings.Repeat("0123456789abcdef", 4<<10)
	if _, err := io.WriteString(body, part); err != nil {
		t.Fatal(err)
	}
	claimsNone(t, p.Fabric, runner(t, other.Fabric, "yours"), "hash", "a", 3*short)
	if _, err := io.WriteString(body, part); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(body.Close(), ended()); err != nil {
		t.Fatal(err)
	}
	j := get(t, p.Fabric, "a")
	if got := output(t, p.Fabric, j); got != part+part || j.Attempt != 1 || len(j.AttemptsLog) != 1 {
		t.Fatalf("%d bytes of %d, %+v", len(got), 2*len(part), j.AttemptsLog)
	}
	nothingLeft(t, p.nc, "hash")
}

func TestStoringAnOutputEndsWhenItsJobIsCancelled(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), lease(short))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	outcome, body := slowOutput()
	defer body.Close()
	ended := settling(t, func() error { return r.Settle(t.Context(), c, outcome) })
	if _, err := io.WriteString(body, "begun"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Cancel(t.Context(), "a", "not wanted"); err != nil {
		t.Fatal(err)
	}
	refused(t, ended(), job.ErrStaleLease)
	if j := get(t, p.Fabric, "a"); j.State != job.StateCancelled {
		t.Fatalf("%+v", j)
	}
}

func TestStoringAnOutputEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := join(t, natstest.Start(t), lease(short))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x"})
	c := claimNext(t, r, "hash", "a")
	outcome, body := slowOutput()
	defer body.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := settling(t, func() error { return r.Settle(ctx, c, outcome) })
	if _, err := io.WriteString(body, "begun"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := ended(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	settle(t, r, c, job.CompletedWith([]byte("shorter")))
}

// restarting reads data, and has the server restarted when some of it was read.
type restarting struct {
	io.Reader
	restart func()
	left    int // bytes until then
}

func (r *restarting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= n; r.left <= 0 && r.restart != nil {
		r.restart()
		r.restart = nil
	}
	return n, err
}

func TestOutputIsStoredAgainWhenTheServerRestartsMeanwhile(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := join(t, s, lease(short))
	r := runner(t, p.Fabric, "")
	enqueue(t, p.Fabric, job.Spec{ID: "a", Stage: "hash", InputRef: "data:,x", MaxAttempts: 1})
	data := strings.Repeat("0123456789abcdef", 64<<10)
	restart := sync.OnceFunc(s.Restart)
	settle(t, r, claimNext(t, r, "hash", "a"), job.CompletedFrom(func() (io.ReadCloser, error) {
		return io.NopCloser(&restarting{Reader: strings.NewReader(data), restart: restart, left: len(data) / 2}), nil
	}))
	j := get(t, p.Fabric, "a")
	if got := output(t, p.Fabric, j); got != data || j.Attempt != 1 {
		t.Fatalf("%d bytes of %d, attempt %d", len(got), len(data), j.Attempt)
	}
	nothingLeft(t, p.nc, "hash")
}
