package api_test

// These tests prove that a claim by request goes through the limits of its stage as
// any other: a claim that is settled, or lost, gives its place back.

import (
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

func TestClaimsByRequestKeepTheLimitOfALabel(t *testing.T) {
	s := newSite(t)
	first, second := s.start(), s.start()
	s.enqueue("makes-the-stage")
	call[none](s, "complete", o{"token": s.claim("w", "makes-the-stage").Token, "output_ref": "data:,y"})
	change := fabric.StageChange{PerLabel: map[string]int{"tenant": 2}}
	for _, i := range []instance{first, second} { // each knows of it at once
		if _, err := i.f.SetStage(t.Context(), "hash", change); err != nil {
			t.Fatal(err)
		}
		if _, err := i.f.Stage(t.Context(), "hash"); err != nil {
			t.Fatal(err)
		}
	}
	for range 6 {
		call[job.Job](s, "enqueue", o{"stage": "hash", "input_ref": "data:,x", "labels": o{"tenant": "acme"}})
	}
	claim := func(worker, wait string) []claimed {
		return call[claims](s, "claim", o{"stage": "hash", "worker": worker, "n": 3, "wait": wait}).Claims
	}
	held := claim("v", patience.String())
	for len(held) < 2 {
		held = append(held, claim("w", patience.String())...)
	}
	if more := claim("x", "300ms"); len(held) != 2 || len(more) != 0 {
		t.Fatalf("%d and %d of a tenant are claimed, where 2 may", len(held), len(more))
	}
	for done := 0; done < 6; {
		for _, c := range held {
			call[none](s, "complete", o{"token": c.Token, "output_ref": "data:,y"})
			done++
		}
		if done == 6 {
			break
		}
		if held = claim("y", patience.String()); len(held) > 2 {
			t.Fatalf("%d of a tenant are claimed, where 2 may", len(held))
		}
	}
}
