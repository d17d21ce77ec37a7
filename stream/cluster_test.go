package stream_test

// This test proves on three servers that a puller follows its consumer to another
// leader and still takes no more than is wanted.

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/stream"
)

func TestPullerFollowsItsConsumerToAnotherLeader(t *testing.T) {
	t.Parallel()
	nc := natstest.Cluster(t)[0].Connect()
	js, err := jetstream.New(nc)
	must(t, err)
	q := stream.New(nc, js, natstest.Tower(t, nc), stream.Config{Namespace: "weft", Replicas: 3, APIPrefix: "$JS.API"})
	natstest.Eventually(t, 3*soon, "the stage", func() bool { return q.Ensure(t.Context(), stage, settings) == nil })
	f := &fixture{q, t, nc, js}
	p, out := f.pull(settings, 10)
	defer p.Close()
	p.Want(2)
	led := f.consumer("runners").Cluster.Leader
	_, err = nc.Request("$JS.API.CONSUMER.LEADER.STEPDOWN.WEFT_"+stage+".runners", nil, soon)
	must(t, err)
	natstest.Eventually(t, 3*soon, "another leader that is asked", func() bool {
		c, err := f.js.Consumer(t.Context(), "WEFT_"+stage, "runners")
		return err == nil && c.CachedInfo().Cluster.Leader != led && c.CachedInfo().NumWaiting > 0
	})
	f.offer(ids(8)...)
	take(t, out)
	take(t, out)
	f.holds(2)
}
