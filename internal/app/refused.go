package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/kv"
)

// RefusedError is a permission that this process's user does not have.
type RefusedError struct {
	Subscribe bool // else to publish
	Subject   string
	Namespace string
	Role      roles.Role // what the process takes its user for; empty is unknown
	Advice    string     // what else can be done, where the program knows that; may be empty
	Err       error      // the client's
}

// Error is one line: what was refused, and who may.
func (e *RefusedError) Error() string {
	verb, may := "publish", roles.Publishing
	if e.Subscribe {
		verb, may = "subscribe", roles.Subscribing
	}
	return fmt.Sprintf("permission refused: the server does not let this user %s to %s; %s", verb, e.Subject, e.hint(may))
}

func (e *RefusedError) hint(may func(roles.Config, string) []roles.Role) string {
	if e.Subscribe && strings.HasPrefix(e.Subject, "_INBOX") {
		return "answers come where its role's inbox is: give --role, or --inbox-prefix as weft auth roles prints it"
	}
	allowed := may(roles.Config{Namespace: e.Namespace}, e.Subject)
	if len(allowed) == 0 {
		return "no role of namespace " + e.Namespace + " may; see weft auth roles"
	}
	hint := ""
	if e.Advice != "" {
		hint = e.Advice + "; "
	}
	names := make([]string, len(allowed))
	for i, r := range allowed {
		names[i] = string(r)
	}
	if slices.Contains(allowed, e.Role) {
		return hint + "role " + string(e.Role) + " may, for the stages and the runners that weft auth roles was given by --stage and --runners"
	}
	return hint + "role " + strings.Join(names, " or ") + " may; see weft auth roles"
}

// OfKeeper reports whether it is a keeper's that wants to lead.
func (e *RefusedError) OfKeeper() bool { return e.Subject == "$KV."+e.Namespace+"."+kv.LeaderKey }

// Unwrap gives the client's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// The client gives what was refused in the text of its error alone. That it was a
// permission is told by the error's identity.
var refusedSubject = regexp.MustCompile(`(Publish|Subscription) to "([^"]+)"`)

func refusalOf(c config.Config, err error) (*RefusedError, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil, false
	}
	e := &RefusedError{Namespace: c.Namespace, Role: roles.Role(c.Connection.Role), Subject: "a subject that it does not name", Err: err}
	if found := refusedSubject.FindStringSubmatch(err.Error()); found != nil {
		e.Subscribe, e.Subject = found[1] == "Subscription", found[2]
	}
	return e, true
}

// Refusals hears of every permission that a connection is refused. The server does
// not answer what it refuses, so whoever waits for an answer would wait until its
// time is over, and ask again.
type Refusals struct {
	nc        *nats.Conn
	namespace string
	log       *slog.Logger

	mu     sync.Mutex
	told   map[string]bool          // guarded by mu: refusals in the log
	ending map[*bounded]func(error) // guarded by mu: what ends with a refusal
}

// bounded is one call of Bound.
type bounded struct{ fatal func(*RefusedError) bool }

// toldMost bounds what a process remembers to have logged.
const toldMost = 1000

// HearRefusals begins to listen. What is not a refusal goes to whoever listened
// before.
func HearRefusals(nc *nats.Conn, c config.Config, log *slog.Logger) *Refusals {
	r := &Refusals{nc: nc, namespace: c.Namespace, log: log, told: map[string]bool{}, ending: map[*bounded]func(error){}}
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, s *nats.Subscription, err error) {
		if refused, ok := refusalOf(c, err); ok {
			r.refused(refused)
		} else if before != nil {
			before(nc, s, err)
		}
	})
	return r
}

// refused ends what a refusal ends, and else logs it, once for each subject.
func (r *Refusals) refused(e *RefusedError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := false
	for b, end := range r.ending {
		if b.fatal == nil || b.fatal(e) {
			end(e)
			ended = true
		}
	}
	if ended || r.told[e.Subject] {
		return
	}
	if len(r.told) >= toldMost {
		clear(r.told)
	}
	r.told[e.Subject] = true
	r.log.Error(e.Error())
}

// Bound gives a context that ends with the first refusal. Call end when what it is
// for is over.
func (r *Refusals) Bound(ctx context.Context) (_ context.Context, end func()) {
	return r.BoundBy(ctx, nil)
}

// BoundBy is Bound for those refusals alone that are fatal.
func (r *Refusals) BoundBy(ctx context.Context, fatal func(*RefusedError) bool) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &bounded{fatal}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending[b] = cancel
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.ending, b)
		cancel(nil)
	}
}

// May asks the server whether this user may do what takes a permission of its own.
// It fails with a *RefusedError.
func (r *Refusals) May(ctx context.Context, act roles.Act) error {
	if act == roles.Look {
		return nil
	}
	return r.ask(ctx, roles.May(r.namespace, act))
}

// MayEnqueue asks the server whether this user may publish items of a stage, before
// a record is written that a keeper would offer all the same.
func (r *Refusals) MayEnqueue(ctx context.Context, stage string) error {
	return r.ask(ctx, roles.MayEnqueue(r.namespace, stage))
}

// ask publishes to a subject that means nothing. The server says that it refuses
// before it answers what was sent after. Somebody may be listening to everything, so
// that nobody answers would prove nothing.
func (r *Refusals) ask(ctx context.Context, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	ctx, end := r.Bound(ctx)
	defer end()
	err := r.nc.Publish(subject, nil)
	if err == nil {
		err = r.nc.FlushWithContext(ctx)
	}
	if last := r.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), strconv.Quote(subject)) {
		<-ctx.Done() // it is on its way to whoever hears of refusals
		err = last
	}
	return Refused(ctx, err)
}

// askWait bounds one such question.
const askWait = 10 * time.Second

// Refused gives the refusal that has ended ctx in place of err, which came of it.
func Refused(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*RefusedError](context.Cause(ctx)); ok && err != nil {
		return refused
	}
	return err
}
