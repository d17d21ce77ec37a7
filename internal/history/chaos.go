package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// chaos does harm to servers, connections and items, one thing after the other.
type chaos struct {
	w      *world
	r      *rand.Rand
	nc     *nats.Conn // past the proxies
	killed time.Time  // when a server was killed last
}

// harm is one thing that can go wrong; weight says how often.
type harm struct {
	name   string
	weight int
	do     func(context.Context)
}

// atWork is how many jobs are accepted before the chaos begins: a cluster that is
// hurt before its streams are in use may have no leaders for the rest of a round.
const atWork = 20

// chaos goes on until ctx ends. What it took down is up again when it returns.
func (w *world) chaos(ctx context.Context) error {
	nc, err := w.servers.connect(w.servers.direct()...)
	if err != nil {
		return err
	}
	defer nc.Close()
	c := &chaos{w: w, r: w.cfg.random("chaos", 0), nc: nc}
	var broken error
	harms := []harm{
		{"", 2, func(ctx context.Context) { broken = c.kill(ctx) }},
		{"", 1, func(ctx context.Context) { broken = c.freeze(ctx) }},
		{"cuts", 3, c.cut},
		{"hold-backs", 2, c.holdBack},
		{"extra items", 6, c.double},
		{"withheld items", 6, c.withhold},
		{"late acknowledgements", 10, c.lateAck},
	}
	if len(w.servers.configs) > 1 {
		harms = append(harms, harm{"step-downs", 4, c.stepDown})
	}
	for w.accepted() < atWork && pause(ctx, 20*time.Millisecond) == nil {
	}
	for pause(ctx, about(c.r, 150*time.Millisecond)) == nil && broken == nil {
		h := c.choose(harms)
		h.do(ctx)
		if h.name != "" {
			w.figures.add(h.name, 1)
		}
	}
	return broken
}

func (c *chaos) choose(harms []harm) harm {
	total := 0
	for _, h := range harms {
		total += h.weight
	}
	at := c.r.IntN(total)
	for _, h := range harms {
		if at < h.weight {
			return h
		}
		at -= h.weight
	}
	return harms[0] // not reached
}

// recovery is how long a cluster is left alone after a kill: it needs up to nine
// seconds to find leaders again, and a test of nothing but elections is dull.
func (w *world) recovery() time.Duration {
	if len(w.servers.configs) == 1 {
		return time.Second
	}
	return 8 * time.Second
}

// kill takes a server down without warning, and starts it again.
func (c *chaos) kill(ctx context.Context) error {
	if time.Since(c.killed) < c.w.recovery() {
		return nil
	}
	i, down := c.r.IntN(len(c.w.servers.configs)), between(c.r, 0, 1500*time.Millisecond)
	c.w.figures.add("kills", 1)
	c.w.log.harmed("", "server %d is killed", i+1)
	c.w.servers.kill(i)
	_ = pause(ctx, down)
	c.killed = time.Now()
	if err := c.w.servers.restart(i); err != nil {
		return fmt.Errorf("server %d did not come back: %w", i+1, err)
	}
	c.w.log.harmed("", "server %d is back", i+1)
	return nil
}

// freeze stops a server, and lets it go on before its cluster would give it up.
func (c *chaos) freeze(ctx context.Context) error {
	i, long := c.r.IntN(len(c.w.servers.configs)), c.r.Float64()
	c.w.figures.add("server freezes", 1)
	c.w.log.harmed("", "server %d is frozen", i+1)
	err := c.w.servers.freeze(i)
	_ = pause(ctx, 500*time.Millisecond+time.Duration(long*long*float64(2500*time.Millisecond))) // mostly short
	if err = errors.Join(err, c.w.servers.thaw(i)); err != nil {
		return fmt.Errorf("server %d: %w", i+1, err)
	}
	c.w.log.harmed("", "server %d goes on", i+1)
	return nil
}

func (c *chaos) proxy() *proxy { return c.w.servers.proxies[c.r.IntN(len(c.w.servers.proxies))] }

func (c *chaos) cut(context.Context) { c.proxy().cut() }

func (c *chaos) holdBack(ctx context.Context) {
	release := c.proxy().holdBack()
	defer release()
	_ = pause(ctx, between(c.r, 50*time.Millisecond, 2*lease))
}

// stepDown makes a stream or a consumer look for another leader.
func (c *chaos) stepDown(ctx context.Context) {
	targets := []string{"STREAM.LEADER.STEPDOWN.KV_" + c.w.namespace}
	for _, stage := range stageNames {
		name := c.w.workStream(stage)
		targets = append(targets, "STREAM.LEADER.STEPDOWN."+name, "CONSUMER.LEADER.STEPDOWN."+name+".runners")
	}
	c.w.servers.disturbed()
	target := targets[c.r.IntN(len(targets))]
	c.w.log.harmed("", "%s", target)
	c.request(ctx, target, nil)
}

func (w *world) workStream(stage string) string { return strings.ToUpper(w.namespace) + "_" + stage }

// request asks the JetStream API and does not care for the answer.
func (c *chaos) request(ctx context.Context, verb string, body []byte) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = c.nc.RequestWithContext(ctx, "$JS.API."+verb, body)
}

// double publishes one more item of a job, with its latest record or an older
// idea of it.
func (c *chaos) double(context.Context) {
	spec, ok := c.w.pick(c.r.IntN(1 << 30))
	if !ok {
		return
	}
	event := c.w.feed.latest(spec.ID)
	if event == nil {
		return
	}
	msg := nats.NewMsg(c.w.itemSubject(spec))
	msg.Data = event.Data
	msg.Header.Set("Weft-Revision", event.Header.Get("Nats-Sequence"))
	c.w.log.harmed(spec.ID, "one more item, of revision %s", event.Header.Get("Nats-Sequence"))
	_ = c.nc.PublishMsg(msg)
}

// withhold removes the item and the schedule of a job, whoever holds it.
func (c *chaos) withhold(ctx context.Context) {
	spec, ok := c.w.pick(c.r.IntN(1 << 30))
	if !ok {
		return
	}
	c.w.log.harmed(spec.ID, "its items are purged")
	later := fmt.Sprintf("%s.later.%s.%s", c.w.namespace, spec.Stage, spec.ID)
	for _, subject := range []string{c.w.itemSubject(spec), later} {
		c.request(ctx, "STREAM.PURGE."+c.w.workStream(spec.Stage), fmt.Appendf(nil, `{"filter":%q}`, subject))
	}
}

// lateAck says something about an item that was handed out some time ago, and
// may be somebody else's by now.
func (c *chaos) lateAck(context.Context) {
	words := []string{"+ACK", "-NAK", "+TERM", "+WPI"}
	which, word := c.r.IntN(1<<30), words[c.r.IntN(len(words))]
	if reply, ok := c.w.acks.pick(which); ok {
		c.w.acks.forge(reply)
		_ = c.nc.Publish(reply, []byte(word))
	}
}
