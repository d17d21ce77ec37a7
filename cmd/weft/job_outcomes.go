package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

func (p *program) newJobOutcomes() *cobra.Command {
	var f listFlags
	var fromNow bool
	cmd := &cobra.Command{
		Use:   "outcomes NAME",
		Short: "Print each job that ends, at least once, also those of while you were away",
		Long: `Outcomes prints a line for each job that has ended, and goes on until SIGINT or
SIGTERM. The server remembers under NAME what was printed: the next call goes on
from there, and several at once share what comes. A line is acknowledged once it
was written, so after a crash a few come twice; they have the same id. With --json
a line is {"id","revision","deliveries","job"}, where job is the record.

A feed is made by the first call of its name, with its filter, and begins with all
jobs whose records are kept, or with --from-now. A later call without a filter
takes the feed as it is; one with another filter is refused. A feed that nobody
needs any more is removed by weft job outcomes rm.`,
		Example: `  weft job outcomes billing --json
  weft job outcomes renders --stage render --state succeeded,failed
  weft job outcomes ls
  weft job outcomes rm billing`,
		Args: oneFeed,
	}
	flags := cmd.Flags()
	f.bindFilter(flags)
	flags.BoolVar(&fromNow, "from-now", false, "a feed that is made begins with the jobs that end from now on")
	jsonFlag(cmd, &f.asJSON)
	cmd.PreRunE = f.check
	cmd.AddCommand(p.newJobOutcomesLs(), p.newJobOutcomesRm())
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, args []string) error {
		ctx, _, stop := app.Signals(ctx)
		defer stop()
		err := p.with(ctx, s, "job outcomes", func(ctx context.Context, a *app.App) error {
			if err := a.Refusals().May(ctx, roles.Land); err != nil {
				return err
			}
			return p.outcomes(ctx, a.Fabric(), args[0], f, fromNow)
		})
		return stoppedOr(ctx, err)
	})
}

// oneFeed takes the name of a feed.
func oneFeed(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give one name of a feed, not %d", len(args))
	}
	return fabric.CheckFeedName(args[0])
}

// outcomes prints what a feed gives. When a line cannot be written, nobody reads any
// more: it is given back, and the command ends.
func (p *program) outcomes(ctx context.Context, f *fabric.Fabric, name string, flags listFlags, fromNow bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts := []fabric.OutcomeOption{fabric.AsMade()}
	if flags.given {
		opts[0] = fabric.OnlyOutcomes(flags.filter)
	}
	if fromNow {
		opts = append(opts, fabric.FromNow())
	}
	return f.Outcomes(ctx, name, func(_ context.Context, o fabric.Outcome) error {
		err := p.printOutcome(o, flags.asJSON)
		if err != nil {
			cancel(err)
		}
		return err
	}, opts...)
}

// printOutcome prints one line. The record comes out as it is stored, which
// encoding/json would not leave it.
func (p *program) printOutcome(o fabric.Outcome, asJSON bool) error {
	if !asJSON {
		return p.printChange(o.Job, false)
	}
	line := fmt.Appendf(nil, `{"id":%q,"revision":%d,"deliveries":%d,"job":`, o.ID(), o.Revision, o.Deliveries)
	_, err := p.Out.Write(append(o.Job.AppendJSON(line), '}', '\n'))
	return err
}

func (p *program) newJobOutcomesLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the feeds of outcomes, and how far each has come",
		Long: `Ls lists the feeds. PENDING are records that a feed has not looked at, whatever
their state; UNACKED are outcomes that somebody has taken and not acknowledged.`,
		Example: `  weft job outcomes ls
  weft job outcomes ls --json | jq -r 'select(.takers == 0).name'`,
		Args: cobra.NoArgs,
	}
	jsonFlag(cmd, &asJSON)
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, _ []string) error {
		return p.with(ctx, s, "job outcomes ls", func(ctx context.Context, a *app.App) error {
			return p.bounded(ctx, func(ctx context.Context) error { return p.feeds(ctx, a.Fabric(), asJSON) })
		})
	})
}

// feedLine is the JSON form of a feed.
type feedLine struct {
	Name      string            `json:"name"`
	Stage     string            `json:"stage,omitempty"`
	States    []job.State       `json:"states,omitempty"`
	Key       string            `json:"key,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	AckWait   string            `json:"ack_wait"`
	After     uint64            `json:"after"`
	Created   time.Time         `json:"created_at"`
	Pending   uint64            `json:"pending"`
	Unacked   int               `json:"unacked"`
	Takers    int               `json:"takers"`
	LastTaken time.Time         `json:"last_taken,omitzero"`
	LastAck   time.Time         `json:"last_ack,omitzero"`
	Drift     string            `json:"drift,omitempty"`
}

// feeds prints the feeds. One whose settings cannot be read is reported, and the
// list goes on.
func (p *program) feeds(ctx context.Context, f *fabric.Fabric, asJSON bool) error {
	all, err := f.Feeds(ctx)
	if err != nil {
		return err
	}
	t := newTable(p.Out, "NAME", "STAGE", "PENDING", "UNACKED", "TAKERS", "LAST ACK", "STATE")
	var unread error
	for _, s := range all {
		switch {
		case s.Err != nil:
			p.complain(fmt.Errorf("feed %s: %w", s.Name, s.Err))
			unread = &app.QuietError{Code: app.ExitFailed}
			continue
		case asJSON:
			err = json.NewEncoder(p.Out).Encode(feedJSON(s))
		default:
			state := "ok"
			if s.Drift != "" {
				state = preview("drift: " + s.Drift)
			}
			err = t.row(s.Name, orDash(s.Filter.Stage), strconv.FormatUint(s.Pending, 10), strconv.Itoa(s.Unacked), strconv.Itoa(s.Takers), orDash(stamp(s.LastAck)), state)
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		if err := t.flush(); err != nil {
			return err
		}
	}
	return unread
}

func feedJSON(s fabric.FeedStatus) feedLine {
	return feedLine{
		s.Name, s.Filter.Stage, s.Filter.States, s.Filter.Key, s.Filter.Labels, s.AckWait.String(), s.After, s.Created,
		s.Pending, s.Unacked, s.Takers, s.LastTaken, s.LastAck, s.Drift,
	}
}

func (p *program) newJobOutcomesRm() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Short:   "Remove a feed of outcomes; what it has not given is forgotten",
		Example: `  weft job outcomes rm billing`,
		Args:    oneFeed,
	}
	return p.command(cmd, connecting(cmd), func(ctx context.Context, s settings, args []string) error {
		return p.with(ctx, s, "job outcomes rm", func(ctx context.Context, a *app.App) error {
			if err := a.Refusals().May(ctx, roles.Land); err != nil {
				return err
			}
			return p.bounded(ctx, func(ctx context.Context) error { return a.Fabric().RemoveFeed(ctx, args[0]) })
		})
	})
}
