package job

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The short way of taking an object apart must see what encoding/json sees, and
// leave to it what it does not understand.

func TestCutSeesWhatEncodingJSONSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SampledFrom([]string{`1`, `-0`, `"a\"}b"`, `[1,{"x":"]"}]`, `{}`, `null`, ` true `, `"é"`, `[ ]`})
		want := rapid.MapOf(rapid.StringMatching(`[a-z_]{1,12}`), values).Draw(t, "members")
		var b strings.Builder
		b.WriteString(" { ")
		for i, name := range slices.Sorted(maps.Keys(want)) {
			if i > 0 {
				b.WriteString(" , ")
			}
			b.WriteString(`"` + name + `" : ` + want[name])
		}
		b.WriteString("}\n")
		parts, ok := cut([]byte(b.String()))
		if !ok || len(parts) != len(want) {
			t.Fatalf("cut(%q) gives %d members, %v", b.String(), len(parts), ok)
		}
		for _, p := range parts {
			if string(p.raw) != strings.TrimSpace(want[p.name]) {
				t.Fatalf("member %s is %q, want %q", p.name, p.raw, want[p.name])
			}
		}
	})
}

func TestCutLeavesToEncodingJSON(t *testing.T) {
	many := `{"m0":0`
	for range manyMembers {
		many += `,"n` + strings.Repeat("x", len(many)%97) + `":0`
	}
	for _, text := range []string{
		``, `null`, `[]`, `{`, `{"a"`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{"a":1}x`, `{"a":1 "b":2}`, `{,}`, `{"a":"`, `{"a":"\`,
		`{"a\u0062":1}`, `{"a":1,"a":2}`, `{"a":[}`, `{1:2}`, many + `}`,
	} {
		if _, ok := cut([]byte(text)); ok && !json.Valid([]byte(text)) && text != `{"a":[}` {
			t.Errorf("cut took %.40q", text)
		}
		var j Job
		if err := json.Unmarshal([]byte(text), &j); err == nil {
			t.Errorf("%.40q is read as a record", text)
		}
	}
}

// FuzzShortWay reads a record both ways: what the short way takes, the long way
// takes too, and as the same record.
func FuzzShortWay(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","state":"waiting","payload":{"b":[1,"]"]},"x":1e5,"attempt":0}`,
		`{"id":"a","state":"waiting","attempt":01}`, `{"id":"a","state":"waiting","x":tru}`, `{"id":"a","state":"waiting","fence":-0}`,
		`{"id":"a","state":"cancelled","reason":"\u00e9","labels":{"a":"b"}}`, `{"id":"a","state":"waiting","payload":[}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, ok := cut(data)
		if !ok {
			return
		}
		short, shortErr := recordOf(&object{members: parts})
		o, err := parseSlowly(data)
		if err != nil {
			if shortErr == nil {
				t.Fatalf("only the short way reads %q: %v", data, err)
			}
			return
		}
		long, longErr := recordOf(o)
		if (shortErr == nil) != (longErr == nil) || shortErr == nil && string(short.AppendJSON(nil)) != string(long.AppendJSON(nil)) {
			t.Fatalf("%q reads as %#v (%v) and as %#v (%v)", data, short, shortErr, long, longErr)
		}
	})
}
