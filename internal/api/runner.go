package api

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

const (
	maxClaims = 100
	// glance is how long a claim looks that does not wait.
	glance = 250 * time.Millisecond
	// linger is how long a claim that has got a job tries to get as many as it
	// asked for.
	linger = 50 * time.Millisecond
)

type claimRequest struct {
	Stage  string   `json:"stage"`
	Worker string   `json:"worker"`
	N      int      `json:"n"`
	Wait   duration `json:"wait"`
}

func (r claimRequest) check() error {
	if err := job.CheckStage(r.Stage); err != nil {
		return err
	}
	if err := job.CheckWorker(r.Worker); err != nil {
		return job.Invalid("worker: give each runner an id of its own: %s", err)
	}
	if r.N < 1 || r.N > maxClaims {
		return job.Invalid("n %d is not within 1 and %d; claim as many jobs as can run at once", r.N, maxClaims)
	}
	return checkWait(r.Wait)
}

// claim leases jobs to a worker. Nobody renews them but the worker, so nothing is
// taken that is not handed out: what comes too late for the answer is given back.
func (s *Service) claim(ctx context.Context, data []byte) (answer, error) {
	req := claimRequest{N: 1}
	if err := decode("claim", data, &req); err != nil {
		return answer{}, err
	}
	if err := req.check(); err != nil {
		return answer{}, err
	}
	seat, leave, err := s.seats.take(req.Worker)
	if err != nil {
		return answer{}, err
	}
	defer leave()
	held, over := context.WithTimeout(ctx, max(time.Duration(req.Wait), glance))
	defer over()
	claims, err := seat.claim(held, req.Stage, req.N)
	if err != nil && held.Err() == nil {
		return answer{}, err
	}
	return s.handOut(seat.runner, claims), nil
}

// handOut writes claims into an answer, as many as fit. If nobody gets it, they
// are given back at no charge, like those that did not fit.
func (s *Service) handOut(r *fabric.Runner, claims []job.Claim) answer {
	body := []byte(`{"claims":[`)
	given := 0
	for _, c := range claims {
		text := claimJSON(c)
		if len(body)+len(text)+room > int(s.nc.MaxPayload()) {
			break
		}
		if given++; given > 1 {
			body = append(body, ',')
		}
		body = append(body, text...)
	}
	s.giveBack(r, claims[given:])
	a := answer{body: append(body, `]}`...)}
	if given > 0 {
		a.undo = func() { s.giveBack(r, claims[:given]) }
	}
	return a
}

func claimJSON(c job.Claim) []byte {
	token, _ := json.Marshal(c.Token) // its times are the record's
	return slices.Concat([]byte(`{"job":`), c.Job.AppendJSON(nil), []byte(`,"token":`), token,
		[]byte(`,"lease":"`+c.Lease.String()+`"}`))
}

// giveBack releases claims that no worker has got.
func (s *Service) giveBack(r *fabric.Runner, claims []job.Claim) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit/2)
	defer cancel()
	var returning sync.WaitGroup
	for _, c := range claims {
		returning.Go(func() {
			if err := r.Settle(ctx, c, job.Released()); err != nil {
				s.log.Warn("job not given back", "job", c.Job.ID, "stage", c.Job.Stage, "attempt", c.Job.Attempt, "fence", c.Job.Fence, "worker", c.Token.WorkerID, "error", err)
			}
		})
	}
	returning.Wait()
}

// acting runs a call for the worker of a token, which first takes the claim up if
// another instance made it.
func (s *Service) acting(ctx context.Context, t job.Token, call func(*fabric.Runner) error) error {
	if err := checkToken(t); err != nil {
		return err
	}
	seat, leave, err := s.seats.take(t.WorkerID)
	if err != nil {
		return err
	}
	defer leave()
	if err := seat.runner.Resume(ctx, t); err != nil {
		return err
	}
	return call(seat.runner)
}

func checkToken(t job.Token) error {
	if t == (job.Token{}) {
		return job.Invalid("token is missing; send the one that claim or renew answered with")
	}
	err := job.CheckID(t.JobID)
	if err == nil {
		err = job.CheckWorker(t.WorkerID)
	}
	switch {
	case err != nil:
		return job.Invalid("token is not one that claim or renew answered with: %s", err)
	case t.Fence < 1:
		return job.Invalid("token is not one that claim or renew answered with: fence %d is below 1", t.Fence)
	case t.ExpiresAt.IsZero():
		return job.Invalid("token is not one that claim or renew answered with: expires_at is missing")
	}
	return nil
}

type renewRequest struct {
	Token    job.Token       `json:"token"`
	Progress json.RawMessage `json:"progress"`
}

// renewed is the answer of renew.
type renewed struct {
	Token job.Token `json:"token"`
	Lease string    `json:"lease"`
}

func (s *Service) renew(ctx context.Context, data []byte) (answer, error) {
	var req renewRequest
	if err := decode("renew", data, &req); err != nil {
		return answer{}, err
	}
	var c job.Claim
	err := s.acting(ctx, req.Token, func(r *fabric.Runner) (err error) {
		c, err = r.Renew(ctx, job.Claim{Token: req.Token}, req.Progress)
		return err
	})
	if err != nil {
		return answer{}, &about{err, req.Token.JobID, c.Job}
	}
	body, err := json.Marshal(renewed{Token: c.Token, Lease: c.Lease.String()})
	return answer{body: body}, err
}

type completeRequest struct {
	Token     job.Token `json:"token"`
	OutputRef string    `json:"output_ref"`
	Output    *string   `json:"output"`
}

func (s *Service) complete(ctx context.Context, data []byte) (answer, error) {
	var req completeRequest
	if err := decode("complete", data, &req); err != nil {
		return answer{}, err
	}
	switch {
	case (req.OutputRef == "") == (req.Output == nil):
		return answer{}, job.Invalid("complete needs either output_ref, which says where the output is, or output, the output itself as text")
	case req.Output != nil:
		return s.settle(ctx, req.Token, job.CompletedWith([]byte(*req.Output)))
	}
	return s.settle(ctx, req.Token, job.Completed(req.OutputRef))
}

type failRequest struct {
	Token     job.Token `json:"token"`
	Reason    string    `json:"reason"`
	Permanent bool      `json:"permanent"`
	Delay     *duration `json:"delay"`
}

func (s *Service) fail(ctx context.Context, data []byte) (answer, error) {
	var req failRequest
	if err := decode("fail", data, &req); err != nil {
		return answer{}, err
	}
	switch {
	case req.Reason == "":
		return answer{}, job.Invalid("fail needs a reason; the record keeps it")
	case req.Permanent && req.Delay != nil:
		return answer{}, job.Invalid("fail: delay is for another attempt, and permanent means that there is none; leave one of them out")
	case req.Permanent:
		return s.settle(ctx, req.Token, job.Discarded(req.Reason))
	case req.Delay == nil:
		return s.settle(ctx, req.Token, job.Failed(req.Reason))
	}
	if err := checkDelay(*req.Delay); err != nil {
		return answer{}, err
	}
	return s.settle(ctx, req.Token, job.FailedAfter(req.Reason, time.Duration(*req.Delay)))
}

func checkDelay(d duration) error {
	if d < 0 {
		return job.Invalid("delay %s is negative; leave it out for the backoff, 0s is at once", time.Duration(d))
	}
	return nil
}

type releaseRequest struct {
	Token  job.Token `json:"token"`
	Reason string    `json:"reason"`
	Delay  *duration `json:"delay"`
}

// release gives a job back: because its runner stops, or with a reason or a delay
// by the handler's own wish.
func (s *Service) release(ctx context.Context, data []byte) (answer, error) {
	var req releaseRequest
	if err := decode("release", data, &req); err != nil {
		return answer{}, err
	}
	switch {
	case req.Delay != nil:
		if err := checkDelay(*req.Delay); err != nil {
			return answer{}, err
		}
		return s.settle(ctx, req.Token, job.Snoozed(req.Reason, time.Duration(*req.Delay)))
	case req.Reason != "":
		return s.settle(ctx, req.Token, job.Returned(req.Reason))
	}
	return s.settle(ctx, req.Token, job.Released())
}

func (s *Service) settle(ctx context.Context, t job.Token, o job.Outcome) (answer, error) {
	err := s.acting(ctx, t, func(r *fabric.Runner) error { return r.Settle(ctx, job.Claim{Token: t}, o) })
	return answer{body: []byte(`{}`)}, concerning(t.JobID, err)
}
