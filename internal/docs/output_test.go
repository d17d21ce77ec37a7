package docs_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	anyULID = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)
)

// compare says how what came out differs from what the page shows, by the rules of
// the package comment.
func compare(lang, want, got string) error {
	want, got = placeless(want), placeless(got)
	if lang == "json" {
		var err error
		if want, err = sorted(want); err != nil {
			return fmt.Errorf("it is no JSON: %w", err)
		}
		if got, err = sorted(got); err != nil {
			return fmt.Errorf("what comes out is no JSON: %w\n%s", err, got)
		}
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", "(?s:.*)")
	if !regexp.MustCompile(`\A` + pattern + `\z`).MatchString(got) {
		return fmt.Errorf("what comes out differs\n got: %s\nwant: %s", got, want)
	}
	return nil
}

// placeless is a text with every time and every ULID the same, and single spaces.
func placeless(text string) string {
	text = anyULID.ReplaceAllString(anyTime.ReplaceAllString(text, "TIME"), "ULID")
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// sorted is JSON with its members in order.
func sorted(text string) (string, error) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return text, err
	}
	out, err := json.Marshal(value)
	return string(out), err
}

// forNow puts the times of a request into our day: a token of another year is
// refused.
func forNow(script string) string {
	if !strings.Contains(script, "nats req") {
		return script
	}
	return anyTime.ReplaceAllString(script, time.Now().UTC().Format(time.RFC3339))
}

func TestWhatComesOutIsCompared(t *testing.T) {
	for _, c := range []struct {
		name, lang, want, got string
		same                  bool
	}{
		{"the same", "text", "a  b\nc", "a b \nc\n", true},
		{"another word", "text", "a b", "a c", false},
		{"more lines", "text", "a", "a\nb", false},
		{"times and ids", "text", "01ARZ3NDEKTSV4RRFFQ69G5FAV 2026-11-30T14:00:00Z", "01BX5ZZKBKACTAV9WEVGEMMVRZ 2027-01-02T03:04:05.678Z", true},
		{"a time that is missing", "text", "at 2026-11-30T14:00:00Z", "at", false},
		{"left out", "text", "a … z\n…", "a b c z\nd\ne", true},
		{"left out in the wrong place", "text", "a … z", "a b c", false},
		{"no pattern", "text", "a.c", "abc", false},
		{"JSON in another order", "json", `{"a":1,"b":"2026-11-30T14:00:00Z"}`, "{\"b\":\"2027-01-02T03:04:05.678Z\",\n\"a\":1}\n\n", true},
		{"JSON with a member more", "json", `{"a":1}`, `{"a":1,"b":2}`, false},
		{"not JSON", "json", `{"a":1}`, `oops`, false},
	} {
		if err := compare(c.lang, c.want, c.got); (err == nil) != c.same {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
