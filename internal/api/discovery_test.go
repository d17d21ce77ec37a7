package api_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/weft-fabric/weft/internal/api"
)

var verbs = []string{"enqueue", "get", "list", "cancel", "retry", "wait", "claim", "renew", "complete", "fail", "release"}

func TestTheServiceTellsOfItself(t *testing.T) {
	s := newSite(t)
	i := s.start()
	ping := control[micro.Ping](s, "$SRV.PING.weft")
	if ping.Name != "weft" || ping.Version != "1.2.3" || ping.ID != i.ID() {
		t.Errorf("%+v", ping)
	}
	info := control[micro.Info](s, "$SRV.INFO.weft."+i.ID())
	if info.Description == "" || info.Metadata["weft.version"] != "v1.2.3" || len(info.Endpoints) != len(verbs) {
		t.Errorf("%+v", info)
	}
	for n, e := range info.Endpoints {
		if e.Name != verbs[n] || e.Subject != "weft.api."+e.Name || e.Metadata["description"] == "" {
			t.Errorf("%+v", e)
		}
		compile(t, e.Name, e.Metadata["request_schema"])
		compile(t, e.Name, e.Metadata["response_schema"])
	}
	if text, _ := json.Marshal(info); len(text) > 64<<10 {
		t.Errorf("the service needs %d bytes to tell of itself", len(text))
	}
}

func TestStatsCountWhatIsAnsweredLater(t *testing.T) {
	s := newSite(t)
	i := s.start()
	s.enqueue("a")
	s.refused("missing_job", "get", o{"id": "none"})
	s.get("a")
	var tally struct {
		Answered  int    `json:"answered"`
		Errors    int    `json:"errors"`
		LastError string `json:"last_error"`
		InFlight  int    `json:"in_flight"`
		Average   int64  `json:"average_time"`
	}
	s.eventually("two requests are counted", func() bool {
		for _, e := range control[micro.Stats](s, "$SRV.STATS.weft."+i.ID()).Endpoints {
			if e.Name == "get" && e.NumRequests == 2 {
				return json.Unmarshal(e.Data, &tally) == nil && tally.Answered == 2 && tally.InFlight == 0
			}
		}
		return false
	})
	if tally.Errors != 1 || tally.LastError != "missing_job none" || tally.Average <= 0 {
		t.Errorf("%+v", tally)
	}
}

func TestAVersionThatIsNone(t *testing.T) {
	s := newSite(t)
	s.start(func(o *api.Options) { o.Version = "(devel)" })
	if ping := control[micro.Ping](s, "$SRV.PING.weft"); ping.Version != "0.0.0" || ping.Metadata["weft.version"] != "(devel)" {
		t.Errorf("%+v", ping)
	}
}

// TestRequestsHaveTheMembersOfTheirSchemas: neither knows a member that the other
// does not.
func TestRequestsHaveTheMembersOfTheirSchemas(t *testing.T) {
	s := newSite(t)
	s.start()
	for verb, fields := range api.FieldsOf() {
		members := slices.Sorted(maps.Keys(s.schemas[verb][0].Properties))
		if !slices.Equal(fields, members) {
			t.Errorf("%s takes %v, its schema has %v", verb, fields, members)
		}
	}
}
