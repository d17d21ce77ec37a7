package flight_test

// These tests prove that each message gets its own answer, once, however many are
// on their way, and that one which is never answered lands too.

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/flight"
	"github.com/weft-fabric/weft/internal/natstest"
)

const soon = 20 * time.Second

// landing is what became of a message.
type landing struct {
	sequence uint64
	err      error
}

func stream(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, MaxMsgSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func send(tower *flight.Tower, msg *nats.Msg) <-chan landing {
	landed := make(chan landing, 2) // a second landing would be seen
	tower.Send(msg, flight.SenderFunc(func(sequence uint64, err error) { landed <- landing{sequence, err} }))
	return landed
}

func land(t *testing.T, landed <-chan landing) landing {
	t.Helper()
	select {
	case l := <-landed:
		return l
	case <-time.After(soon):
		t.Fatal("not landed")
		return landing{}
	}
}

func TestEachOfManyGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	const senders, each = 8, 500
	nc := natstest.Conn(t)
	s := stream(t, nc)
	tower := natstest.Tower(t, nc)
	var sending sync.WaitGroup
	for n := range senders {
		sending.Go(func() {
			var landed []<-chan landing
			for i := range each {
				landed = append(landed, send(tower, &nats.Msg{Subject: "s.x", Data: fmt.Appendf(nil, "%d.%d", n, i)}))
			}
			for i, l := range landed {
				got := land(t, l)
				msg, err := s.GetMsg(t.Context(), got.sequence)
				if want := fmt.Sprintf("%d.%d", n, i); err != nil || got.err != nil || string(msg.Data) != want {
					t.Errorf("message %s: %v, %v", want, got, err)
					return
				}
			}
		})
	}
	sending.Wait()
}

func TestRefusalsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	stream(t, nc)
	tower := natstest.Tower(t, nc)
	for name, c := range map[string]struct {
		msg  *nats.Msg
		want func(error) bool
	}{
		"a conflict": {
			&nats.Msg{Subject: "s.x", Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"7"}}},
			func(err error) bool {
				refused, ok := errors.AsType[*jetstream.APIError](err)
				return ok && refused.ErrorCode == 10071
			},
		},
		"no stream": {&nats.Msg{Subject: "nowhere"}, func(err error) bool { return errors.Is(err, jetstream.ErrNoStreamResponse) }},
		"too large": {&nats.Msg{Subject: "s.x", Data: make([]byte, 2000)}, func(err error) bool {
			refused, ok := errors.AsType[*jetstream.APIError](err)
			return ok && refused.Code == 400
		}},
		"no subject":                    {&nats.Msg{}, func(err error) bool { return errors.Is(err, nats.ErrBadSubject) }},
		"larger than the server allows": {&nats.Msg{Subject: "s.x", Data: make([]byte, 2<<20)}, func(err error) bool { return errors.Is(err, nats.ErrMaxPayload) }},
	} {
		if got := land(t, send(tower, c.msg)); !c.want(got.err) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Somebody listens, so it is not that there is no stream, and never answers.
func TestMessageThatIsNotAnsweredLandsAsLost(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	if _, err := nc.SubscribeSync("silent"); err != nil {
		t.Fatal(err)
	}
	tower := natstest.Tower(t, nc)
	began := time.Now()
	landed := send(tower, &nats.Msg{Subject: "silent"})
	if got := land(t, landed); !errors.Is(got.err, nats.ErrTimeout) || time.Since(began) < flight.Wait {
		t.Errorf("%v after %s", got, time.Since(began))
	}
	if len(landed) > 0 {
		t.Error("it landed twice")
	}
}

func TestLateAnswerIsNobodys(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t)
	sub, err := nc.SubscribeSync("slow")
	if err != nil {
		t.Fatal(err)
	}
	tower := natstest.Tower(t, nc)
	first := send(tower, &nats.Msg{Subject: "slow"})
	msg, err := sub.NextMsg(soon)
	if err != nil {
		t.Fatal(err)
	}
	if got := land(t, first); !errors.Is(got.err, nats.ErrTimeout) {
		t.Fatal(got)
	}
	second := send(tower, &nats.Msg{Subject: "slow"})
	again, err := sub.NextMsg(soon)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*nats.Msg{msg, again} {
		if err := m.Respond([]byte(`{"stream":"S","seq":9}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got := land(t, second); got != (landing{9, nil}) || len(first) > 0 {
		t.Errorf("%v, and %d more of the first", got, len(first))
	}
}

func TestMessageLandsWhenItsConnectionIsClosed(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	nc := s.Connect()
	if _, err := nc.SubscribeSync("silent"); err != nil {
		t.Fatal(err)
	}
	tower, err := flight.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	landed := send(tower, &nats.Msg{Subject: "silent"})
	nc.Close()
	if got := land(t, landed); !errors.Is(got.err, nats.ErrConnectionClosed) {
		t.Errorf("on its way: %v", got)
	}
	if got := land(t, send(tower, &nats.Msg{Subject: "silent"})); !errors.Is(got.err, nats.ErrConnectionClosed) {
		t.Errorf("after: %v", got)
	}
	tower.Close()
}

func TestMessageSentWhileTheServerIsAwayArrives(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	nc := s.Connect()
	stream(t, nc)
	tower := natstest.Tower(t, nc)
	s.Stop()
	landed := send(tower, &nats.Msg{Subject: "s.x"})
	s.Restart()
	// It may have waited for longer than its answer may take.
	if got := land(t, landed); got.err == nil && got.sequence != 1 || got.err != nil && !errors.Is(got.err, nats.ErrTimeout) {
		t.Error(got)
	}
}
