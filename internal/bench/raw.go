package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/kv"
	"github.com/weft-fabric/weft/stream"
)

// The raw figures use streams configured as the fabric's are.

// raw measures what bounds the fabric.
func (r *run) raw(ctx context.Context) error {
	if err := r.rawStreams(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.rawSwap, r.rawPublish, r.rawConsume, r.rawLatency, r.rawTrips} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.js.DeleteStream(ctx, r.rawStream("records")), r.js.DeleteStream(ctx, r.rawStream("work")))
}

// rawStreams creates a bucket and a work stream as the fabric's are; a stage has its
// consumer from its first enqueue on, so the work stream has one too.
func (r *run) rawStreams(ctx context.Context) error {
	bucket := kv.StreamConfig(kv.Config{Namespace: r.namespace + "-raw", Replicas: 1})
	bucket.Name = r.rawStream("records")
	queue := stream.New(r.nc, r.js, nil, stream.Config{Namespace: r.namespace + "-raw", Replicas: 1}).StreamConfig("raw")
	queue.Name = r.rawStream("work")
	for _, config := range []jetstream.StreamConfig{bucket, queue} {
		if _, err := r.js.CreateStream(ctx, config); err != nil {
			return err
		}
	}
	_, err := r.js.CreateConsumer(ctx, r.rawStream("work"), jetstream.ConsumerConfig{
		Durable: rawConsumer, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
		FilterSubject: r.namespace + "-raw.work.raw.*",
	})
	return err
}

const rawConsumer = "raw"

func (r *run) rawStream(name string) string { return "KV_" + r.namespace + "_" + name }

func (r *run) body() []byte { return bytes.Repeat([]byte("x"), r.o.Payload+recordOverhead) }

// recordOverhead is about what a record has beside its payload, in bytes.
const recordOverhead = 300

// rawSwap creates keys and then changes each once, at the revision it has.
func (r *run) rawSwap(ctx context.Context) error {
	subject := func(i int) string { return fmt.Sprintf("$KV.%s-raw.job.raw%d", r.namespace, i) }
	began := time.Now()
	revisions, err := r.publishAll(ctx, r.o.Jobs, func(i int) (*nats.Msg, uint64) { return &nats.Msg{Subject: subject(i), Data: r.body()}, 0 })
	if err != nil {
		return err
	}
	_, err = r.publishAll(ctx, r.o.Jobs, func(i int) (*nats.Msg, uint64) {
		return &nats.Msg{Subject: subject(i), Data: r.body()}, revisions[i]
	})
	if err != nil {
		return err
	}
	r.swap = r.rate("raw compare-and-set", 2*r.o.Jobs, time.Since(began), 0)
	return nil
}

func (r *run) rawPublish(ctx context.Context) error {
	began := time.Now()
	_, err := r.publishAll(ctx, r.o.Jobs, func(i int) (*nats.Msg, uint64) {
		return &nats.Msg{Subject: fmt.Sprintf("%s-raw.work.raw.raw%d", r.namespace, i), Data: r.body()}, 0
	})
	if err != nil {
		return err
	}
	r.publish = r.rate("raw work-queue publish", r.o.Jobs, time.Since(began), 0)
	return nil
}

// publishAll publishes n messages, maxPending at once, each expecting its
// subject at a revision.
func (r *run) publishAll(ctx context.Context, n int, message func(int) (*nats.Msg, uint64)) ([]uint64, error) {
	revisions := make([]uint64, n)
	futures := make([]jetstream.PubAckFuture, n)
	done := 0
	for i := range n {
		msg, revision := message(i)
		future, err := r.js.PublishMsgAsync(msg, jetstream.WithExpectLastSequencePerSubject(revision))
		if err != nil {
			return nil, err
		}
		futures[i] = future
		for ; i-done >= maxPending-1; done++ {
			if err := await(ctx, futures[done], &revisions[done]); err != nil {
				return nil, err
			}
		}
	}
	for ; done < n; done++ {
		if err := await(ctx, futures[done], &revisions[done]); err != nil {
			return nil, err
		}
	}
	return revisions, nil
}

func await(ctx context.Context, future jetstream.PubAckFuture, revision *uint64) error {
	select {
	case ack := <-future.Ok():
		*revision = ack.Sequence
		return nil
	case err := <-future.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rawConsume takes and acknowledges what rawPublish has published.
func (r *run) rawConsume(ctx context.Context) error {
	c, err := r.js.Consumer(ctx, r.rawStream("work"), rawConsumer)
	if err != nil {
		return err
	}
	all := make(chan struct{})
	taken := 0
	began := time.Now()
	consuming, err := c.Consume(func(msg jetstream.Msg) {
		_ = msg.Ack() // one that is lost is delivered again, and the count is off by it
		if taken++; taken == r.o.Jobs {
			close(all)
		}
	})
	if err != nil {
		return err
	}
	defer consuming.Stop()
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.consume = r.rate("raw consume and ack", r.o.Jobs, time.Since(began), 0)
	return nil
}

// rawLatency is from a publish to its delivery, to a consumer that waits.
func (r *run) rawLatency(ctx context.Context) (err error) {
	r.raw50, r.raw99, err = r.rawDelivery(ctx, "raw publish to delivery", "late",
		func(subject string, body []byte) error {
			_, err := r.js.Publish(ctx, subject, body)
			return err
		},
		func() error { return nil })
	return err
}

// rawTrips is from a record that is created, by an item that is published then, to
// the record's change by whoever the item was delivered to: what an idle enqueue's
// three trips are, one after the other, without the fabric.
func (r *run) rawTrips(ctx context.Context) (err error) {
	var revision atomic.Uint64
	var n atomic.Int64
	swap := func() error {
		ack, err := r.js.Publish(ctx, fmt.Sprintf("$KV.%s-raw.job.trip%d", r.namespace, n.Load()), r.body(),
			jetstream.WithExpectLastSequencePerSubject(revision.Load()))
		if err == nil {
			revision.Store(ack.Sequence)
		}
		return err
	}
	r.trips50, r.trips99, err = r.rawDelivery(ctx, "raw record, item and claim", "trip",
		func(subject string, body []byte) error {
			revision.Store(0)
			n.Add(1)
			if err := swap(); err != nil {
				return err
			}
			_, err := r.js.Publish(ctx, subject, body, jetstream.WithExpectLastSequencePerSubject(0))
			return err
		}, swap)
	return err
}

// rawDelivery measures from a publish until what it delivers has been received.
func (r *run) rawDelivery(
	ctx context.Context, name, id string, publish func(subject string, body []byte) error, receive func() error,
) (p50, p99 time.Duration, err error) {
	c, err := r.js.Consumer(ctx, r.rawStream("work"), rawConsumer)
	if err != nil {
		return 0, 0, err
	}
	arrived, failed := make(chan time.Time, 1), make(chan error, 1)
	consuming, err := c.Consume(func(msg jetstream.Msg) {
		if err := receive(); err != nil {
			select {
			case failed <- err:
			default:
			}
		}
		arrived <- time.Now()
		_ = msg.Ack()
	})
	if err != nil {
		return 0, 0, err
	}
	defer consuming.Stop()
	body := r.body()
	times, err := r.sample(ctx, arrived, func(i int) error {
		return publish(fmt.Sprintf("%s-raw.work.raw.%s%d", r.namespace, id, i), body)
	})
	if err != nil {
		return 0, 0, err
	}
	select {
	case err := <-failed:
		return 0, 0, err
	default:
	}
	p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
	r.figure(Figure{Name: name + ", p50", Value: micros(p50), Unit: "us"})
	r.figure(Figure{Name: name + ", p99", Value: micros(p99), Unit: "us"})
	return p50, p99, nil
}
