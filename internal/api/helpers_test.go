package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/api"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/job"
)

const (
	// patience is how long a test waits for what must happen soon.
	patience = 20 * time.Second
	// long is a lease that no test lets run out, short one that some do.
	long  = 30 * time.Second
	short = 2 * time.Second
)

// instance is the API in a process of its own: with its own connection, so that
// it can die without a word.
type instance struct {
	*api.Service
	f  *fabric.Fabric
	nc *nats.Conn
}

// site is a server and a client that only speaks the API. Whatever it sends and
// gets is held against the schemas that the service tells of itself.
type site struct {
	t       *testing.T
	server  *natstest.Server
	nc      *nats.Conn
	lease   time.Duration
	schemas map[string][2]*jsonschema.Schema // by verb: request, response
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	s := natstest.Start(t)
	return &site{t: t, server: s, nc: s.Connect(), lease: long}
}

// start runs an instance until the test ends.
func (s *site) start(edit ...func(*api.Options)) instance {
	s.t.Helper()
	nc := s.server.Connect()
	o := fabric.DefaultOptions()
	o.Logger = warnings(s.t)
	o.Stage.Lease = s.lease
	o.Backoff = job.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond, Factor: 2}
	f, err := fabric.Open(s.t.Context(), nc, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(f.Close)
	options := api.Options{Namespace: "weft", Version: "v1.2.3", Logger: o.Logger}
	for _, change := range edit {
		change(&options)
	}
	service, err := api.Start(nc, f, options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := stop(service); err != nil && !nc.IsClosed() {
			s.t.Error(err)
		}
	})
	if s.schemas == nil {
		s.learn()
	}
	return instance{service, f, nc}
}

// kill ends an instance without a word, and waits until the server knows: a
// request that it sends there before is lost.
func (s *site) kill(i instance) {
	s.t.Helper()
	i.nc.Close()
	s.eventually("the server knows that an instance is gone", func() bool {
		_, err := s.nc.Request("$SRV.PING.weft."+i.ID(), nil, time.Second)
		return errors.Is(err, nats.ErrNoResponders)
	})
}

func stop(service *api.Service) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return service.Stop(ctx)
}

func warnings(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// control asks the service protocol.
func control[T any](s *site, subject string) (answer T) {
	s.t.Helper()
	msg, err := s.nc.Request(subject, nil, patience)
	if err != nil {
		s.t.Fatalf("%s: %v", subject, err)
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		s.t.Fatalf("%s: %v", subject, err)
	}
	return answer
}

// learn takes the schemas from where every client finds them.
func (s *site) learn() {
	s.t.Helper()
	s.schemas = map[string][2]*jsonschema.Schema{}
	for _, e := range control[micro.Info](s, "$SRV.INFO.weft").Endpoints {
		s.schemas[e.Name] = [2]*jsonschema.Schema{
			compile(s.t, e.Name, e.Metadata["request_schema"]), compile(s.t, e.Name, e.Metadata["response_schema"]),
		}
	}
}

func compile(t *testing.T, name, text string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("schema of %s: %v", name, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("verb.json", doc); err != nil {
		t.Fatalf("schema of %s: %v", name, err)
	}
	schema, err := c.Compile("verb.json")
	if err != nil {
		t.Fatalf("schema of %s: %v", name, err)
	}
	return schema
}

func (s *site) conforms(what string, schema *jsonschema.Schema, data []byte) {
	s.t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		s.t.Errorf("%s does not conform: %v\n%s", what, err, data)
	}
}

// ask sends a request, text or something to encode, and gives the whole answer.
func (s *site) ask(verb string, request any) *nats.Msg {
	s.t.Helper()
	msg, err := s.nc.Request("weft.api."+verb, encode(s.t, request), 2*patience)
	if err != nil {
		s.t.Fatalf("%s: %v", verb, err)
	}
	return msg
}

func encode(t *testing.T, request any) []byte {
	t.Helper()
	if text, ok := request.(string); ok {
		return []byte(text)
	}
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// call sends a request that is answered, and decodes the answer.
func call[T any](s *site, verb string, request any) (answer T) {
	s.t.Helper()
	msg := s.ask(verb, request)
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		s.t.Fatalf("%s: refused: %s: %s", verb, code, msg.Header.Get(micro.ErrorHeader))
	}
	s.conforms("request of "+verb, s.schemas[verb][0], encode(s.t, request))
	s.conforms("answer of "+verb, s.schemas[verb][1], msg.Data)
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		s.t.Fatalf("%s: %v\n%s", verb, err, msg.Data)
	}
	return answer
}

// failed is the body of an error.
type failed struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	JobID   string   `json:"job_id"`
	Job     *job.Job `json:"job"`
}

// refused sends a request that is refused with a code and a line that has all of
// parts.
func (s *site) refused(code, verb string, request any, parts ...string) (f failed) {
	s.t.Helper()
	msg := s.ask(verb, request)
	line := msg.Header.Get(micro.ErrorHeader)
	if got := msg.Header.Get(micro.ErrorCodeHeader); got != code {
		s.t.Fatalf("%s %s: code %q, want %q: %s", verb, encode(s.t, request), got, code, line)
	}
	for _, part := range parts {
		if !strings.Contains(line, part) {
			s.t.Errorf("%s %s: %q does not say %q", verb, encode(s.t, request), line, part)
		}
	}
	if err := json.Unmarshal(msg.Data, &f); err != nil || f.Code != code || f.Message != line {
		s.t.Errorf("%s: body %s of %s: %s, %v", verb, msg.Data, code, line, err)
	}
	return f
}

// o is a JSON object.
type o map[string]any

type claimed struct {
	Job   job.Job   `json:"job"`
	Token job.Token `json:"token"`
	Lease string    `json:"lease"`
}

type claims struct {
	Claims []claimed `json:"claims"`
}

// enqueue accepts a job with a plain spec.
func (s *site) enqueue(id string) job.Job {
	s.t.Helper()
	return call[job.Job](s, "enqueue", o{"id": id, "stage": "hash", "input_ref": "data:,x"})
}

// claim takes one job and checks that it is the one expected.
func (s *site) claim(worker, id string) claimed {
	s.t.Helper()
	got := call[claims](s, "claim", o{"stage": "hash", "worker": worker, "wait": patience.String()}).Claims
	if len(got) != 1 || got[0].Job.ID != id {
		s.t.Fatalf("claimed %+v, want %s", got, id)
	}
	return got[0]
}

func (s *site) get(id string) job.Job {
	s.t.Helper()
	return call[job.Job](s, "get", o{"id": id})
}

// none is the answer of the verbs that settle.
type none struct{}
