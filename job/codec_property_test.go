package job_test

// Any spec and record goes through the wire form unharmed: random texts, raw
// JSON of any layout in the payload, and members that this version does not know.

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-fabric/weft/job"
)

// rawJSON draws a JSON text, with blanks wherever JSON allows them.
func rawJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		blank := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "blank") }
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 && kind > 3 {
			kind = 0
		}
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			if kind == 4 {
				parts = append(parts, blank()+rawJSON(depth-1).Draw(t, "item")+blank())
			}
			if kind == 5 {
				parts = append(parts, blank()+rawString(t)+blank()+":"+blank()+rawJSON(depth-1).Draw(t, "value")+blank())
			}
		}
		switch kind {
		case 0:
			return rapid.SampledFrom([]string{"true", "false", "0", "-0.00", "1E+2", "12345678901234567890.5"}).Draw(t, "word")
		case 1, 2, 3:
			return rawString(t)
		case 4:
			return "[" + strings.Join(parts, ",") + blankIf(len(parts) == 0, blank()) + "]"
		}
		return "{" + strings.Join(parts, ",") + blankIf(len(parts) == 0, blank()) + "}"
	})
}

func blankIf(empty bool, blank string) string {
	if empty {
		return blank
	}
	return ""
}

func rawString(t *rapid.T) string {
	unit := rapid.SampledFrom([]string{"a", "<", "&", `\"`, `\\`, `\/`, `\u003c`, `\ud83d`, "\u2028", "é", "😀", `\u0000`, "\xff"})
	return `"` + strings.Join(rapid.SliceOfN(unit, 0, 6).Draw(t, "string"), "") + `"`
}

func anySpec(t *rapid.T) job.Spec {
	text := rapid.String()
	spec := job.Spec{
		ID:            rapid.StringMatching(`[A-Za-z0-9_=-]{1,20}`).Draw(t, "id"),
		Stage:         rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,20}`).Draw(t, "stage"),
		InputRef:      "x" + text.Draw(t, "input"),
		InputRevision: rapid.Int64Min(0).Draw(t, "revision"),
		Key:           rapid.StringN(0, 20, 256).Draw(t, "key"),
		MaxAttempts:   rapid.Int64Min(1).Draw(t, "max attempts"),
		Priority:      rapid.IntRange(0, 4).Draw(t, "priority"),
		Timeout:       time.Duration(rapid.Int64Min(0).Draw(t, "timeout")),
		AvailableAt:   time.Unix(rapid.Int64Range(0, 2e11).Draw(t, "seconds"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC(),
	}
	spec.OnDependencyFailure = rapid.SampledFrom([]job.DependencyPolicy{"", "wait", "cancel"}).Draw(t, "policy")
	if labels := rapid.MapOfN(text, text, 0, 4).Draw(t, "labels"); len(labels) > 0 {
		spec.Labels = labels
	}
	if ids := rapid.SliceOfNDistinct(rapid.StringMatching(`dep_[a-z]{1,5}`), 0, 4, rapid.ID).Draw(t, "dependencies"); len(ids) > 0 {
		spec.Dependencies = ids
	}
	if rapid.Bool().Draw(t, "with payload") {
		spec.Payload = json.RawMessage(rawJSON(3).Draw(t, "payload"))
	}
	return spec
}

func TestAnySpecSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := anySpec(t)
		if again := decodeSpec(t, string(spec.AppendJSON(nil))); !reflect.DeepEqual(again, spec) {
			t.Fatalf("read back %#v,\nwant %#v", again, spec)
		}
		j := mustNew(t, spec)
		checkReadBack(t, j)
		if !spec.Same(decodeJob(t, j.AppendJSON(nil))) {
			t.Fatal("the stored job counts as made from another spec")
		}
		if spec.AvailableAt.After(t0) {
			return
		}
		j, token := mustClaim(t, j, "rn_a", t0)
		j.Progress = json.RawMessage(rawJSON(3).Draw(t, "progress"))
		checkReadBack(t, j)
		checkReadBack(t, must(t)(j.Fail(token, "rn_a", rapid.String().Draw(t, "reason"), at(1), 0)))
	})
}

func TestAnyUnknownMemberSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := "x_" + rapid.StringN(0, 8, -1).Draw(t, "name")
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		raw := rawJSON(3).Draw(t, "value")
		j := decodeJob(t, []byte(record(","+string(quoted)+" : "+raw)))
		if got := j.UnknownMembers(); len(got) != 1 || got[0] != name {
			t.Fatalf("unknown members %q, want %q", got, name)
		}
		j, token := mustClaim(t, j, "rn_a", t0)
		j = must(t)(j.Complete(token, "rn_a", "s3://out/1", at(1)))
		if text := j.AppendJSON(nil); !bytes.HasSuffix(text, []byte(":"+raw+"}")) {
			t.Fatalf("the value %s is not the end of %s", raw, text)
		}
		checkReadBack(t, j)
	})
}
