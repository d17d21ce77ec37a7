package api_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// sample is one request of the page and what the page says is answered: JSON, or
// the code of an error.
var sample = regexp.MustCompile("(?s)```sh\nnats req weft\\.api\\.(\\w+) '([^\n]*)'[^\n]*\n```\n```(json|error)\n(.*?)\n```")

// TestThePageIsTrue sends each request of docs/api.md and compares the answers,
// but for their times.
func TestThePageIsTrue(t *testing.T) {
	s := newSite(t)
	s.start()
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := sample.FindAllStringSubmatch(string(page), -1)
	if n := len(regexp.MustCompile("(?m)^nats req").FindAll(page, -1)); n == 0 || len(samples) != n {
		t.Fatalf("%d samples were found", len(samples))
	}
	for _, m := range samples {
		verb, request, kind, want := m[1], withToday(m[2]), m[3], m[4]
		if kind == "error" {
			s.refused(want, verb, request)
			continue
		}
		msg := s.ask(verb, request)
		if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
			t.Fatalf("%s %s: %s", verb, request, msg.Data)
		}
		s.conforms("request of "+verb, s.schemas[verb][0], []byte(request))
		s.conforms("answer of "+verb, s.schemas[verb][1], msg.Data)
		if got, want := timeless(t, msg.Data), timeless(t, []byte(want)); got != want {
			t.Errorf("%s %s:\n got %s\nwant %s", verb, request, got, want)
		}
	}
}

var anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// withToday puts the page's times into our day: a token of another year is refused.
func withToday(request string) string {
	return anyTime.ReplaceAllString(request, time.Now().UTC().Format(time.RFC3339))
}

// timeless is JSON with every time the same, and its members in order.
func timeless(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(anyTime.ReplaceAll(text, []byte("T")), &value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}
