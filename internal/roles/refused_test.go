package roles_test

// These tests prove that the server refuses each role what is not its own, by what
// the server says to a bare connection. The permissions are those that are printed.

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

var hashes = roles.Config{Namespace: "weft", Stages: []string{"hash"}}

// forbidden are the actions that a role must not be able to take, by the subject
// that they take.
var forbidden = map[roles.Role]map[string]string{
	roles.Viewer: {
		"make a feed":            "$KV.weft.outcomes.x",
		"acknowledge an outcome": "$JS.ACK.KV_weft.outcomes-x.1.1.1.1.0",
		"say that it lands":      "weft.may.land",
		"write a record":         "$KV.weft.job.x",
		"change a stage":         "$KV.weft.stage.hash",
		"pretend to be a worker": "$KV.weft.worker.x",
		"lead":                   "$KV.weft.leader.keeper",
		"publish a bare item":    "weft.work.hash.x",
		"publish to a lane":      "weft.lane.hash.1.x",
		"publish a schedule":     "weft.later.hash.x",
		"enqueue by the API":     "weft.api.enqueue",
		"cancel by the API":      "weft.api.cancel",
		"retry by the API":       "weft.api.retry",
		"claim by the API":       "weft.api.claim",
		"take an item":           "$JS.API.CONSUMER.MSG.NEXT.WEFT_hash.runners",
		"acknowledge an item":    "$JS.ACK.WEFT_hash.runners.1.1.1.1.0",
		"remove an item":         "$JS.API.STREAM.MSG.DELETE.WEFT_hash",
		"purge a stage":          "$JS.API.STREAM.PURGE.WEFT_hash",
		"delete a stage":         "$JS.API.STREAM.DELETE.WEFT_hash",
		"change the bucket":      "$JS.API.STREAM.UPDATE.KV_weft",
		"make a stage":           "$JS.API.STREAM.CREATE.WEFT_hash",
		"pause a stage":          "$JS.API.CONSUMER.PAUSE.WEFT_hash.runners",
		"consume a stage":        "$JS.API.CONSUMER.CREATE.WEFT_hash.x.weft.work.hash.x",
		"signal a worker":        "weft.signal.x",
		"write an output":        "$O.weft-output.C.x",
	},
	roles.Backend: {
		"acknowledge another's outcome": "$JS.ACK.KV_other.outcomes-x.1.1.1.1.0",
		"take an item":                  "$JS.API.CONSUMER.MSG.NEXT.WEFT_hash.runners",
		"acknowledge an item":           "$JS.ACK.WEFT_hash.runners.1.1.1.1.0",
		"claim by the API":              "weft.api.claim",
		"renew by the API":              "weft.api.renew",
		"complete by the API":           "weft.api.complete",
		"fail by the API":               "weft.api.fail",
		"release by the API":            "weft.api.release",
		"retry by the API":              "weft.api.retry",
		"pretend to be a worker":        "$KV.weft.worker.x",
		"lead":                          "$KV.weft.leader.keeper",
		"write counts":                  "$KV.weft.count.hash",
		"write an output":               "$O.weft-output.C.x",
		"purge a stage":                 "$JS.API.STREAM.PURGE.WEFT_hash",
		"delete a stage":                "$JS.API.STREAM.DELETE.WEFT_hash",
		"change a stage":                "$JS.API.STREAM.UPDATE.WEFT_hash",
		"pause the consumers":           "$JS.API.CONSUMER.PAUSE.WEFT_hash.runners",
		"delete a consumer":             "$JS.API.CONSUMER.DELETE.WEFT_hash.runners",
		"change the bucket":             "$JS.API.STREAM.UPDATE.KV_weft",
		"purge the bucket":              "$JS.API.STREAM.PURGE.KV_weft",
		"say that it operates":          "weft.may.operate",
		"make an unknown stage":         "$JS.API.STREAM.CREATE.WEFT_unknown",
	},
	roles.Runner: {
		"make a feed":               "$KV.weft.outcomes.x",
		"acknowledge an outcome":    "$JS.ACK.KV_weft.outcomes-x.1.1.1.1.0",
		"say that it lands":         "weft.may.land",
		"enqueue by the API":        "weft.api.enqueue",
		"cancel by the API":         "weft.api.cancel",
		"retry by the API":          "weft.api.retry",
		"publish a bare item":       "weft.work.hash.x",
		"publish to a lane":         "weft.lane.hash.1.x",
		"make a stage":              "$KV.weft.stage.hash",
		"make a stage's stream":     "$JS.API.STREAM.CREATE.WEFT_hash",
		"make a consumer":           "$JS.API.CONSUMER.CREATE.WEFT_hash.runners.weft.work.hash.x",
		"pause a stage":             "$JS.API.CONSUMER.PAUSE.WEFT_hash.runners",
		"delete a consumer":         "$JS.API.CONSUMER.DELETE.WEFT_hash.runners",
		"purge a stage":             "$JS.API.STREAM.PURGE.WEFT_hash",
		"delete a stage":            "$JS.API.STREAM.DELETE.WEFT_hash",
		"change the bucket":         "$JS.API.STREAM.UPDATE.KV_weft",
		"purge the bucket":          "$JS.API.STREAM.PURGE.KV_weft",
		"lead":                      "$KV.weft.leader.keeper",
		"say that it cancels":       "weft.may.cancel",
		"write counts":              "$KV.weft.count.hash",
		"write an input":            "$O.weft-input.C.x",
		"take of an unknown stage":  "$JS.API.CONSUMER.MSG.NEXT.WEFT_unknown.runners",
		"offer to an unknown stage": "weft.later.unknown.x",
	},
	roles.Operator: {
		"acknowledge another's outcome": "$JS.ACK.KV_other.outcomes-x.1.1.1.1.0",
		"use another bucket":            "$KV.other.job.x",
		"use another stream":            "$JS.API.STREAM.INFO.KV_other",
		"delete another stream":         "$JS.API.STREAM.DELETE.KV_other",
		"consume by a trick of name":    "$JS.API.CONSUMER.CREATE.KV_other.KV_weft.x",
		"list all streams":              "$JS.API.STREAM.LIST",
		"remove a server's peer":        "$JS.API.SERVER.REMOVE",
	},
}

// The API's runners may do nothing of this either.
var forbiddenByAPI = map[string]string{
	"write a record":      "$KV.weft.job.x",
	"read a record":       "$JS.API.STREAM.MSG.GET.KV_weft",
	"read an input":       "$JS.API.DIRECT.GET.OBJ_weft-input.x",
	"publish a schedule":  "weft.later.hash.x",
	"take an item":        "$JS.API.CONSUMER.MSG.NEXT.WEFT_hash.runners",
	"acknowledge an item": "$JS.ACK.WEFT_hash.runners.1.1.1.1.0",
	"move a key":          "$KV.weft.current.x",
	"write an output":     "$O.weft-output.C.x",
}

func TestForbiddenActionsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	before := s.fabricAtRest("weft", "hash")
	for _, r := range roles.All {
		p := s.probe("weft", r)
		for what, subject := range forbidden[r] {
			if !p.publish(subject, []byte(`{"input_ref":"data:,x"}`)) {
				t.Errorf("%s can %s: %s", r, what, subject)
			}
		}
	}
	before.check()
}

func TestNoRoleReadsAnothersAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	for _, r := range roles.All {
		p := s.probe("weft", r)
		for _, other := range roles.All {
			inbox := "_INBOX_weft_" + string(other) + ".x.y"
			if refused := p.subscribe(inbox); refused == (r == other) {
				t.Errorf("%s is refused to listen to %s: %v", r, inbox, refused)
			}
			// An operator answers requests.
			if refused := p.publish(inbox, nil); refused == (r == roles.Operator) {
				t.Errorf("%s is refused to publish to %s: %v", r, inbox, refused)
			}
		}
		if !p.subscribe("_INBOX.x") {
			t.Errorf("%s can listen to the inboxes of users without a role", r)
		}
	}
}

func TestRunnersOfTheAPICanDoNothingElse(t *testing.T) {
	t.Parallel()
	c := hashes
	c.Runners = roles.API
	s := newSite(t, c)
	before := s.fabricAtRest("weft", "hash")
	p := s.probe("weft", roles.Runner)
	for _, table := range []map[string]string{forbidden[roles.Runner], forbiddenByAPI} {
		for what, subject := range table {
			if !p.publish(subject, []byte(`{"input_ref":"data:,x"}`)) {
				t.Errorf("a runner of the API can %s: %s", what, subject)
			}
		}
	}
	before.check()
}

// Whatever one role may and another may not is refused to that other.
func TestWhatAnotherRoleMayIsRefused(t *testing.T) {
	t.Parallel()
	for _, way := range roles.Ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			c := hashes
			c.Runners = way
			s := newSite(t, c)
			s.fabricAtRest("weft", "hash")
			for _, r := range roles.All {
				p := s.probe("weft", r)
				for _, other := range roles.All {
					of := roles.Of(c, other)
					for _, subject := range examples(of.Publish.Allow) {
						if !slices.Contains(roles.Publishing(c, subject), r) && !p.publish(subject, nil) {
							t.Errorf("%s can publish to %s", r, subject)
						}
					}
					for _, subject := range examples(of.Subscribe.Allow) {
						if !slices.Contains(roles.Subscribing(c, subject), r) && !p.subscribe(subject) {
							t.Errorf("%s can subscribe to %s", r, subject)
						}
					}
				}
			}
		})
	}
}

// Whatever any role of another namespace in the account may is refused.
func TestAnotherNamespaceIsOutOfReach(t *testing.T) {
	t.Parallel()
	other := roles.Config{Namespace: "other", Stages: []string{"hash"}, Runners: roles.Keep}
	for _, way := range roles.Ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			c := hashes
			c.Runners = way
			s := newSite(t, c, other)
			before := s.fabricAtRest("other", "hash")
			for _, r := range roles.All {
				p := s.probe("weft", r)
				for _, theirs := range roles.All {
					of := roles.Of(other, theirs)
					for _, subject := range examples(of.Publish.Allow) {
						if !p.publish(subject, nil) {
							t.Errorf("%s can publish to %s", r, subject)
						}
					}
					for _, subject := range examples(of.Subscribe.Allow) {
						// Discovery of services has no namespace.
						if !strings.HasPrefix(subject, "$SRV.") && !p.subscribe(subject) {
							t.Errorf("%s can subscribe to %s", r, subject)
						}
					}
				}
				for _, wide := range []string{">", "*.event.>", "_INBOX.>", "$KV.>", "$JS.API.>"} {
					if !p.subscribe(wide) {
						t.Errorf("%s can subscribe to %s", r, wide)
					}
				}
			}
			before.check()
		})
	}
}

// Without stages a role reaches what has no namespace in its subject, which the
// page says, and still nothing else.
func TestWithoutStagesOnlyWorkStreamsAreInReach(t *testing.T) {
	t.Parallel()
	s := newSite(t, roles.Config{Namespace: "weft"}, roles.Config{Namespace: "other"})
	before := s.fabricAtRest("other", "hash")
	for _, r := range roles.All {
		p := s.probe("weft", r)
		for _, subject := range []string{
			"$KV.other.job.x", "$KV.other.stage.hash", "other.work.hash.x", "other.later.hash.x", "other.api.enqueue",
			"other.signal.x", "$O.other-output.C.x", "$O.other-input.C.x",
		} {
			if !p.publish(subject, nil) {
				t.Errorf("%s can publish to %s", r, subject)
			}
		}
		if !p.subscribe("other.event.>") || !p.subscribe("other.signal.*") {
			t.Errorf("%s can listen to another namespace", r)
		}
	}
	before.check()
}

// examples puts a token in place of each wildcard.
func examples(patterns []string) []string {
	var subjects []string
	for _, p := range patterns {
		tokens := strings.Split(p, ".")
		for i, token := range tokens {
			switch token {
			case "*":
				tokens[i] = "x"
			case ">":
				tokens[i] = "x.y"
			}
		}
		subjects = append(subjects, strings.Join(tokens, "."))
	}
	return subjects
}

// rest is what the streams of a fabric have stored.
type rest struct {
	t       *testing.T
	js      jetstream.JetStream
	streams map[string]jetstream.StreamInfo
}

// fabricAtRest makes a fabric with one job and notes what its streams hold.
func (s *site) fabricAtRest(namespace, stage string) rest {
	s.t.Helper()
	ctx, cancel := within(s.t)
	defer cancel()
	a, _ := s.start(namespace, roles.Backend)
	if _, err := a.Fabric().Enqueue(ctx, job.Spec{ID: "theirs", Stage: stage, InputRef: "data:,x"}); err != nil {
		s.t.Fatal(err)
	}
	js, err := jetstream.New(s.server.Connect(nats.UserInfo("root", password)))
	if err != nil {
		s.t.Fatal(err)
	}
	r := rest{s.t, js, map[string]jetstream.StreamInfo{}}
	for _, name := range []string{"KV_" + namespace, strings.ToUpper(namespace) + "_" + stage} {
		r.streams[name] = r.info(ctx, name)
	}
	return r
}

func (r rest) info(ctx context.Context, name string) jetstream.StreamInfo {
	r.t.Helper()
	st, err := r.js.Stream(ctx, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return *st.CachedInfo()
}

// check fails if a stream is not as it was.
func (r rest) check() {
	r.t.Helper()
	ctx, cancel := within(r.t)
	defer cancel()
	for name, was := range r.streams {
		is := r.info(ctx, name)
		if is.State.LastSeq != was.State.LastSeq || is.State.Msgs != was.State.Msgs || is.State.Consumers != was.State.Consumers {
			r.t.Errorf("stream %s was %+v and is %+v", name, was.State, is.State)
		}
	}
}

func TestWhatIsPrintedIsReadByTheServer(t *testing.T) {
	t.Parallel()
	for _, namespace := range namespaces {
		for _, way := range roles.Ways {
			for _, stages := range [][]string{nil, {"a", "b-c"}} {
				name := fmt.Sprintf("%s/%s/%d", namespace, way, len(stages))
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					var text bytes.Buffer
					if err := roles.Account(&text, roles.Config{Namespace: namespace, Stages: stages, Runners: way}, ""); err != nil {
						t.Fatal(err)
					}
					if strings.Contains(text.String(), password) {
						t.Error("it prints a password")
					}
					s := serve(t, text.String())
					for _, r := range roles.All {
						s.probe(namespace, r)
					}
				})
			}
		}
	}
}
