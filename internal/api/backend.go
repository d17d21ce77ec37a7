package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

const (
	// maxWait is how long a request may ask to be held.
	maxWait = time.Minute
	// room is what an answer needs beside the records in it: headers and names.
	room = 16 << 10

	defaultPage = 100
	maxPage     = 1000
	// listFor is how long one request of list reads. What it has seen by then is
	// the page, since a filter may pass over very many jobs.
	listFor = 2 * time.Second
)

// record answers with a job's record, or an error that names the job.
func record(id string, j job.Job, err error) (answer, error) {
	if err != nil {
		return answer{}, concerning(id, err)
	}
	return answer{body: j.AppendJSON(nil)}, nil
}

// conflictMember is what a request of enqueue may have beside the spec.
const conflictMember = "on_conflict"

func (s *Service) enqueue(ctx context.Context, data []byte) (answer, error) {
	spec, policy, err := specOf(data)
	if err != nil {
		return answer{}, err
	}
	if spec.Trace.IsZero() {
		spec.Trace = traceOf(ctx)
	}
	j, err := s.f.Enqueue(ctx, spec, fabric.OnConflict(policy))
	return record(cmp.Or(j.ID, spec.ID), j, err)
}

// specOf takes the conflict policy out of the request. What is left is the spec,
// whose members stay byte for byte as they were sent.
func specOf(data []byte) (spec job.Spec, policy fabric.Conflict, err error) {
	members, err := object(data)
	if err != nil {
		return spec, "", job.Invalid("enqueue %s; send the spec as a JSON object, at least stage and input_ref", err)
	}
	if raw, given := members[conflictMember]; given {
		if err := json.Unmarshal(raw, &policy); err != nil {
			return spec, "", job.Invalid("%s is not a string: supersede, reject or coalesce", conflictMember)
		}
		delete(members, conflictMember)
		data = joined(members)
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return spec, "", job.Invalid("%s", err)
	}
	if unknown := spec.UnknownMembers(); len(unknown) > 0 {
		return spec, "", job.Invalid("a spec has no member %s; put what is the handler's into payload or labels", cut(quote(unknown[0])))
	}
	return spec, policy, nil
}

// joined writes an object from its members as they stand.
func joined(members map[string]json.RawMessage) []byte {
	var parts [][]byte
	for name, raw := range members {
		key, _ := json.Marshal(name) // a string always marshals
		parts = append(parts, slices.Concat(key, []byte{':'}, raw))
	}
	return slices.Concat([]byte{'{'}, bytes.Join(parts, []byte{','}), []byte{'}'})
}

type getRequest struct {
	ID string `json:"id"`
}

func (s *Service) get(ctx context.Context, data []byte) (answer, error) {
	var req getRequest
	if err := decode("get", data, &req); err != nil {
		return answer{}, err
	}
	raw, err := s.f.Raw(ctx, req.ID)
	if err == nil {
		if _, unreadable := job.Decode(raw); unreadable != nil {
			err = fmt.Errorf("job %s: %w: %w", req.ID, kv.ErrUnreadable, unreadable)
		}
	}
	if err != nil {
		return answer{}, concerning(req.ID, err)
	}
	return answer{body: raw}, nil
}

type changeRequest struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

func (s *Service) cancel(ctx context.Context, data []byte) (answer, error) {
	var req changeRequest
	if err := decode("cancel", data, &req); err != nil {
		return answer{}, err
	}
	j, err := s.f.Cancel(ctx, req.ID, cmp.Or(req.Reason, "cancelled by a backend"))
	return record(req.ID, j, err)
}

func (s *Service) retry(ctx context.Context, data []byte) (answer, error) {
	var req changeRequest
	if err := decode("retry", data, &req); err != nil {
		return answer{}, err
	}
	j, err := s.f.Retry(ctx, req.ID, cmp.Or(req.Reason, "retried by a backend"))
	return record(req.ID, j, err)
}

type waitRequest struct {
	ID   string    `json:"id"`
	Wait *duration `json:"wait"`
}

// wait answers with the job as it is when it has ended, or when the time of the
// request is over, or when the instance stops.
func (s *Service) wait(ctx context.Context, data []byte) (answer, error) {
	var req waitRequest
	if err := decode("wait", data, &req); err != nil {
		return answer{}, err
	}
	if req.Wait == nil {
		return answer{}, job.Invalid("wait is missing; say how long, up to %s, and let the request itself last longer", maxWait)
	}
	if err := checkWait(*req.Wait); err != nil {
		return answer{}, err
	}
	held, over := context.WithTimeout(ctx, time.Duration(*req.Wait))
	defer over()
	if j, err := s.f.Wait(held, req.ID); held.Err() == nil {
		return record(req.ID, j, err)
	}
	now, over := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer over()
	j, err := s.f.Get(now, req.ID)
	return record(req.ID, j, err)
}

func checkWait(d duration) error {
	if d < 0 || time.Duration(d) > maxWait {
		return job.Invalid("wait %s is not within 0s and %s; ask again when it is over", time.Duration(d), maxWait)
	}
	return nil
}

type listRequest struct {
	Stage  string            `json:"stage"`
	States []job.State       `json:"states"`
	Key    string            `json:"key"`
	Labels map[string]string `json:"labels"`
	Limit  int               `json:"limit"`
	After  string            `json:"after"`
}

// list gives one page of the jobs in the order of their last change.
func (s *Service) list(ctx context.Context, data []byte) (answer, error) {
	req := listRequest{Limit: defaultPage}
	if err := decode("list", data, &req); err != nil {
		return answer{}, err
	}
	after, err := req.check()
	if err != nil {
		return answer{}, err
	}
	p := page{
		filter: fabric.Filter{Stage: req.Stage, States: req.States, Key: req.Key, Labels: req.Labels},
		left:   req.Limit, room: int(s.nc.MaxPayload()) - room,
		until: time.Now().Add(listFor), begin: after, after: after, more: true,
	}
	if err := p.read(ctx, s.f); err != nil {
		return answer{}, err
	}
	return answer{body: p.json()}, nil
}

func (r listRequest) check() (after uint64, err error) {
	if r.Stage != "" {
		if err := job.CheckStage(r.Stage); err != nil {
			return 0, err
		}
	}
	for _, state := range r.States {
		if !state.Known() {
			return 0, job.Invalid("states: %s is no state; the states are %s", cut(quote(string(state))), stateNames())
		}
	}
	if r.Limit < 1 || r.Limit > maxPage {
		return 0, job.Invalid("limit %d is not within 1 and %d; take the rest with after", r.Limit, maxPage)
	}
	if r.After == "" {
		return 0, nil
	}
	if after, err = strconv.ParseUint(r.After, 10, 63); err != nil {
		return 0, job.Invalid("after %s is not the next of an earlier answer; leave it out to begin", cut(quote(r.After)))
	}
	return after, nil
}

func stateNames() string {
	var names []string
	for _, state := range job.States() {
		names = append(names, string(state))
	}
	return strings.Join(names, ", ")
}

// page is one answer of list in the making.
type page struct {
	filter fabric.Filter
	left   int       // how many more jobs it may have
	room   int       // how many more bytes
	until  time.Time // when it is given as it is

	jobs       [][]byte
	unreadable []string
	begin      uint64 // the last revision of the page before
	after      uint64 // the last revision it has dealt with
	more       bool   // what comes after that was not read
}

func (p *page) read(ctx context.Context, f *fabric.Fabric) error {
	for rec, err := range f.Records(ctx, p.after) {
		if err != nil && !errors.Is(err, kv.ErrUnreadable) {
			return err
		}
		if !p.take(rec, err == nil) {
			return nil
		}
	}
	p.more = false
	return nil
}

// take deals with one record; false if it has to wait for the next page.
func (p *page) take(rec kv.Record, readable bool) bool {
	matches := readable && p.filter.Match(rec.Job)
	size := len(rec.Raw) + 1
	if !readable {
		size = len(rec.Job.ID) + 3
	}
	late := p.after > p.begin && time.Now().After(p.until)
	if p.left == 0 || late || (matches || !readable) && size > p.room {
		return false
	}
	p.after = rec.Revision
	switch {
	case matches:
		p.jobs = append(p.jobs, rec.Raw)
	case !readable:
		p.unreadable = append(p.unreadable, rec.Job.ID)
	default:
		return true
	}
	p.left--
	p.room -= size
	return true
}

func (p *page) json() []byte {
	body := slices.Concat([]byte(`{"jobs":[`), bytes.Join(p.jobs, []byte{','}), []byte{']'})
	if len(p.unreadable) > 0 {
		ids, _ := json.Marshal(p.unreadable) // strings always marshal
		body = append(append(body, `,"unreadable":`...), ids...)
	}
	if p.more {
		body = append(body, `,"next":"`+strconv.FormatUint(p.after, 10)+`"`...)
	}
	return append(body, '}')
}
