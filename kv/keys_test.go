package kv_test

// These tests prove that any text can be a caller's key: its form in the bucket
// is one the server takes, and gives the text back.

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// keyForm is what a key of the bucket may be. It must be one token, since
// patterns such as current.* match one.
var keyForm = regexp.MustCompile(`^current\.[-/_=a-zA-Z0-9]+$`)

func checkKey(t interface{ Fatalf(string, ...any) }, key string) {
	current := kv.CurrentKey(key)
	if !keyForm.MatchString(current) {
		t.Fatalf("key %q becomes %q", key, current)
	}
	if back, ok := kv.KeyOf(current); !ok || back != key {
		t.Fatalf("key %q comes back as %q, %t", key, back, ok)
	}
}

func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkKey(t, string(rapid.SliceOfN(rapid.Byte(), 1, job.MaxKeyLength).Draw(t, "key")))
	})
}

func TestDifferentKeysStayDifferent(t *testing.T) {
	t.Parallel()
	texts := rapid.StringOf(rapid.RuneFrom([]rune("aA=0./ \x00é")))
	rapid.Check(t, func(t *rapid.T) {
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		if a != b && kv.CurrentKey(a) == kv.CurrentKey(b) {
			t.Fatalf("%q and %q are both %q", a, b, kv.CurrentKey(a))
		}
	})
}

func TestServerTakesTheLongestKeyOfTheWorstBytes(t *testing.T) {
	t.Parallel()
	b, nc := bucket(t)
	for _, key := range []string{strings.Repeat("\xff", job.MaxKeyLength), strings.Repeat(".", job.MaxKeyLength), "*", ">", "a b", "/"} {
		swap(t, b, kv.Write{Key: kv.CurrentKey(key), Value: []byte(`{}`)})
		if e := get(t, b, kv.CurrentKey(key)); !e.Exists() {
			t.Errorf("key %q is not there", key)
		}
	}
	if !nc.IsConnected() {
		t.Fatal("a key closed the connection")
	}
}

func TestKeyOfRefusesWhatNoKeyBecomes(t *testing.T) {
	t.Parallel()
	for _, current := range []string{
		"", "current", "job.a", "current.a.b", "current.a b", "current.=", "current.=4", "current.=zz",
		"current.=41", // a letter is not escaped
		"current.=2e", // nor are small digits used
		"current.=+1", "current.= 1", "current.é", "current.a*",
	} {
		if key, ok := kv.KeyOf(current); ok {
			t.Errorf("%q is the form of %q", current, key)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"a", "order/17", "a.b", "=41", "é", "\x00", "current."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text != "" {
			checkKey(t, text)
		}
		// Read the other way: whatever KeyOf accepts is the form of what it gives.
		if key, ok := kv.KeyOf(text); ok && kv.CurrentKey(key) != text {
			t.Fatalf("%q gives %q, which becomes %q", text, key, kv.CurrentKey(key))
		}
		if key, ok := kv.KeyOf("current." + text); ok && utf8.ValidString(text) && kv.CurrentKey(key) != "current."+text {
			t.Fatalf("%q gives %q", text, key)
		}
	})
}

func TestKeysOfOneKindAreNotTakenForAnother(t *testing.T) {
	t.Parallel()
	if id, ok := kv.JobID(kv.JobKey("a")); !ok || id != "a" {
		t.Errorf("job id %q, %t", id, ok)
	}
	if stage, ok := kv.StageOf(kv.StageKey("hash")); !ok || stage != "hash" {
		t.Errorf("stage %q, %t", stage, ok)
	}
	for _, key := range []string{kv.StageKey("a"), kv.WorkerKey("a"), kv.CurrentKey("a"), kv.LeaderKey} {
		if id, ok := kv.JobID(key); ok {
			t.Errorf("%s is the record of job %s", key, id)
		}
	}
}

func TestLimitKeysAreShortAndDistinct(t *testing.T) {
	long := strings.Repeat("ä", 2000)
	seen := map[string]bool{}
	for _, text := range []string{"", "=", "a", "a.b", "a b", "=h", long, long + "x", strings.Repeat("a", 300), strings.Repeat("a", 301)} {
		key := kv.LimitKey("hash", "label", "tenant", text)
		if seen[key] || len(key) > 400 || strings.Contains(key, "..") || strings.HasSuffix(key, ".") {
			t.Errorf("%.20q: %s", text, key)
		}
		seen[key] = true
	}
}
