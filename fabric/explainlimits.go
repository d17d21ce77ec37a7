package fabric

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-fabric/weft/kv"
)

// limits tells which limits of a value hold the job back, and who is before it.
func (x *explaining) limits(ctx context.Context) error {
	for _, g := range x.stage.gates(x.job) {
		if g.whole { // see full
			continue
		}
		e, err := x.f.bucket.Get(ctx, g.key)
		if err != nil {
			return err
		}
		running, err := x.f.holding(ctx, holdersOf(e), x.stage.Lease)
		if err != nil {
			return err
		}
		ids := []string{}
		for _, h := range running {
			ids = append(ids, h.JobID)
		}
		if len(ids) < g.limit || slices.Contains(ids, x.id) {
			continue
		}
		x.add(CauseLimit, map[string]any{"stage": x.stage.Name, "limit_of": g.what, "limit": g.limit, "running": len(ids), "jobs": ids},
			"it is held back by the limit of %s in stage %s: %d running, and %d may", g.what, x.stage.Name, len(ids), g.limit).
			move("the end of one of them", x.command("explain", ids[0])).
			move("a greater limit", fmt.Sprintf("weft stage set %s %s%d", x.stage.Name, g.flag, g.limit+1))
	}
	return nil
}

// tooFast tells when the stage's rate lets nothing begin now.
func (x *explaining) tooFast(ctx context.Context) error {
	rate := x.stage.Rate
	if !rate.Limited() {
		return nil
	}
	e, err := x.f.bucket.Get(ctx, kv.RateKey(x.stage.Name))
	if err != nil {
		return err
	}
	p := &pace{}
	p.see(e)
	if n, wait := p.allowance(rate, x.now); n == 0 {
		x.add(CauseRate, map[string]any{"stage": x.stage.Name, "rate": rate.String(), "burst": rate.Burst, "next_in": wait.String()},
			"it is held back by the rate limit of stage %s, %s: the next job may begin in %s", x.stage.Name, rate, about(wait)).
			move("its turn, once more may begin").
			move("a greater rate", fmt.Sprintf("weft stage set %s --rate %d/%s", x.stage.Name, 2*rate.Jobs, rate.String()[strings.IndexByte(rate.String(), '/')+1:]))
	}
	return nil
}
