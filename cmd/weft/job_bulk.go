package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// bulkVerb is what can be done to jobs, one by one or all that match.
type bulkVerb struct {
	name, done string // in the imperative, and of a job it was done to
	reason     string // unless another is given
	asked      roles.Act
	// states are those in which it can be done.
	states []job.State
	// since is when the job came to be one of those. A job for which that is after
	// the command's beginning is none of its business: what a retry has moved may
	// fail again, and would be retried for ever.
	since func(job.Job) time.Time
	act   func(ctx context.Context, f *fabric.Fabric, id, reason string) (job.Job, error)
	// actIn does it to a job that is still in one of the states.
	actIn func(ctx context.Context, f *fabric.Fabric, id, reason string, states []job.State) (job.Job, error)
}

// bulk is one call of such a command.
type bulk struct {
	*program
	bulkVerb
	listFlags
	yes, dryRun bool
	filtered    bool

	mu      sync.Mutex
	did     int   // guarded by mu
	toolate int   // guarded by mu: jobs that changed meanwhile
	refused int   // guarded by mu: for any other reason
	broken  error // guarded by mu: why it goes no further
}

// bulkHands is how many jobs are worked on at once.
const bulkHands = 16

// newBulk makes a command of its texts, whose long one it completes.
func (p *program) newBulk(verb bulkVerb, cmd *cobra.Command) *cobra.Command {
	b := &bulk{program: p, bulkVerb: verb}
	cmd.Use = verb.name + " (ID... | --stage STAGE --state STATE --key KEY --label NAME=VALUE)"
	cmd.Long += `

With a filter in place of ids it is done to every job that matches all of it and
was there when the command began. On a terminal it says how many these are and
asks; elsewhere, and with --json, it needs --yes. --dry-run prints the ids alone.
SIGINT or SIGTERM ends it between two jobs. It exits 1 if it was stopped, or if a
job was refused for another reason than that it has ended or changed meanwhile.`
	flags := cmd.Flags()
	flags.StringVar(&b.reason, "reason", verb.reason, "why, for the record")
	b.bind(flags)
	flags.BoolVar(&b.yes, "yes", false, "do not ask")
	flags.BoolVar(&b.dryRun, "dry-run", false, "print the ids that match, and do nothing")
	jsonFlag(cmd, &b.asJSON)
	cmd.PreRunE = b.check
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, ids []string) error {
		if !b.filtered {
			return p.eachJob(ctx, s, "job "+verb.name, ids, verb.asked, b.one)
		}
		return p.with(ctx, s, "job "+verb.name, func(ctx context.Context, a *app.App) error {
			if err := a.Refusals().May(ctx, verb.asked); err != nil {
				return err
			}
			return b.all(ctx, a.Fabric())
		})
	})
}

// check refuses ids together with a filter, and a filter that lets everything
// pass because a variable of a script was empty.
func (b *bulk) check(cmd *cobra.Command, ids []string) error {
	changed := func(names ...string) bool { return slices.ContainsFunc(names, cmd.Flags().Changed) }
	b.filtered = changed(filterFlags...)
	switch {
	case len(ids) > 0 && (b.filtered || changed("limit", "yes", "dry-run")):
		return errors.New("give ids or a filter, not both; --limit, --yes and --dry-run go with a filter")
	case len(ids) > 0:
		return nil
	case !b.filtered:
		return errors.New("give the id of a job, or several, or a filter: --stage, --state, --key or --label")
	case changed("state") && len(b.listFlags.states) == 0:
		return errors.New("--state is empty")
	case changed("key") && b.filter.Key == "":
		return errors.New("--key is empty")
	}
	if err := b.listFlags.check(cmd, nil); err != nil {
		return err
	}
	for _, state := range b.filter.States {
		if !slices.Contains(b.bulkVerb.states, state) {
			return fmt.Errorf("--state %s: there is nothing to %s in a job that is %s", state, b.name, state)
		}
	}
	if b.filter.States == nil {
		b.filter.States = b.bulkVerb.states
	}
	if !b.yes && !b.dryRun && (b.asJSON || !b.canAsk()) {
		return fmt.Errorf("give --yes to %s all that match, or --dry-run to see them", b.name)
	}
	return nil
}

// canAsk reports whether there is a person to ask.
func (b *bulk) canAsk() bool {
	in, ok := b.In.(io.Writer)
	return ok && isTerminal(in) && isTerminal(b.Err)
}

// one does it to a job that was named.
func (b *bulk) one(ctx context.Context, f *fabric.Fabric, id string) error {
	j, err := b.act(ctx, f, id, b.reason)
	if err != nil {
		return named(id, err)
	}
	return b.printState(j, b.asJSON)
}

// matching streams the jobs it is to be done to. A record that cannot be read
// comes as an error, and they go on.
func (b *bulk) matching(ctx context.Context, f *fabric.Fabric, began time.Time) iter.Seq2[job.Job, error] {
	filter, limit := b.filter, b.filter.Limit
	filter.Limit = 0 // a job that is none of its business does not count
	return func(yield func(job.Job, error) bool) {
		given := 0
		for j, err := range f.List(ctx, filter) {
			if err == nil && b.since(j).After(began) {
				continue
			}
			if !yield(j, err) {
				return
			}
			if err == nil {
				given++
			}
			if given == limit && limit > 0 {
				return
			}
		}
	}
}

// all does it to every job that matches.
func (b *bulk) all(ctx context.Context, f *fabric.Fabric) error {
	began := f.Now()
	if b.dryRun {
		return b.show(ctx, f, began)
	}
	if !b.yes {
		if agreed, err := b.ask(ctx, f, began); err != nil || !agreed {
			return err
		}
	}
	return b.run(ctx, f, began)
}

// show prints the ids.
func (b *bulk) show(ctx context.Context, f *fabric.Fabric, began time.Time) error {
	count := 0
	for j, err := range b.matching(ctx, f, began) {
		switch {
		case errors.Is(err, kv.ErrUnreadable):
			b.complain(err)
			continue
		case err != nil:
			return err
		case b.asJSON:
			err = printJob(b.Out, j, true)
		default:
			_, err = fmt.Fprintln(b.Out, j.ID)
		}
		if err != nil {
			return err
		}
		count++
	}
	b.note("%s", countText(count))
	return nil
}

func countText(n int) string {
	switch n {
	case 0:
		return "no job matches"
	case 1:
		return "1 job matches"
	}
	return fmt.Sprintf("%d jobs match", n)
}

// ask says how many match and whether to go on. To say no is not to succeed.
func (b *bulk) ask(ctx context.Context, f *fabric.Fabric, began time.Time) (agreed bool, err error) {
	count := 0
	for _, err := range b.matching(ctx, f, began) {
		if err == nil {
			count++
		} else if !errors.Is(err, kv.ErrUnreadable) {
			return false, err
		}
	}
	if count == 0 {
		b.note("%s", countText(count))
		return false, nil
	}
	_, _ = fmt.Fprintf(b.Err, "weft: %s; %s? [y/N] ", countText(count), b.name) // who cannot see it does not say yes
	answer, err := bufio.NewReader(b.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("no answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	b.note("nothing was done")
	return false, &app.QuietError{Code: app.ExitFailed}
}

// run does it to job after job, several at a time. The first signal lets those end
// that are under way, the second does not.
func (b *bulk) run(ctx context.Context, f *fabric.Fabric, began time.Time) error {
	listing, second, stop := app.Signals(ctx)
	defer stop()
	acting, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-second:
			abort()
		case <-ended:
		}
	})
	whole := b.feed(listing, acting, f, began)
	close(ended)
	watching.Wait()
	return b.outcome(whole)
}

// feed hands the jobs out until there are no more, and waits for those handed out.
// It reports false when a signal came first.
func (b *bulk) feed(listing, acting context.Context, f *fabric.Fabric, began time.Time) (whole bool) {
	var working sync.WaitGroup
	defer working.Wait()
	hands := make(chan struct{}, bulkHands)
	for j, err := range b.matching(listing, f, began) {
		switch {
		case listing.Err() != nil:
			return false
		case errors.Is(err, kv.ErrUnreadable):
			b.tell(err)
			continue
		case err != nil:
			b.stop(err)
		}
		hands <- struct{}{} // those before come to an end, within callTimeout
		if b.stopped() {
			break
		}
		working.Go(func() {
			defer func() { <-hands }()
			b.do(acting, f, j.ID)
		})
	}
	return true
}

// do does it to one job and notes what became of it.
func (b *bulk) do(ctx context.Context, f *fabric.Fabric, id string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	j, err := b.actIn(ctx, f, id, b.reason, b.filter.States)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.did++
		if err := b.printState(j, b.asJSON); err != nil && b.broken == nil {
			b.broken = err
		}
	case errors.Is(err, job.ErrTerminalJob), errors.Is(err, job.ErrNotFailed), errors.Is(err, job.ErrMissingJob), errors.Is(err, fabric.ErrOtherState):
		b.toolate++
	case app.ExitCode(err) == app.ExitNoServer:
		b.refused++
		if b.broken == nil {
			b.broken = named(id, err)
		}
	default:
		b.refused++
		b.complain(named(id, err))
	}
}

func (b *bulk) tell(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complain(err)
}

func (b *bulk) stop(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		b.broken = err
	}
}

func (b *bulk) stopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken != nil
}

// outcome says what was done.
func (b *bulk) outcome(whole bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf("%s %d, ended or changed meanwhile %d, refused %d", b.done, b.did, b.toolate, b.refused)
	if !whole || b.broken != nil {
		text = "stopped before the end; " + text
	}
	b.note("%s", text)
	if b.broken != nil {
		return b.broken
	}
	if !whole || b.refused > 0 {
		return &app.QuietError{Code: app.ExitFailed}
	}
	return nil
}
