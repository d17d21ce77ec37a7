package job_test

// CutReason: what is stored of a reason is valid UTF-8, at most 4 KiB, and the
// end of what the program said.

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/weft-fabric/weft/job"
)

func TestCutReason(t *testing.T) {
	t.Parallel()
	const limit = job.MaxReasonSize
	x := strings.Repeat
	tests := []struct{ rule, reason, want string }{
		{"an empty reason stays", "", ""},
		{"a short reason stays", "exit status 1\n", "exit status 1\n"},
		{"a reason at the limit stays", x("x", limit), x("x", limit)},
		{"one byte more is cut to the end", "a" + x("x", limit), "... " + x("x", limit-4)},
		{"the end is kept", x("x", 3*limit) + "panic", "... " + x("x", limit-9) + "panic"},
		{"a rune on the border is left out", "é" + x("é", limit/2) + "a", "... " + x("é", (limit-6)/2) + "a"},
		{"four-byte runes are left out whole", x("😀", limit) + "abc", "... " + x("😀", (limit-8)/4) + "abc"},
		{"a bad byte becomes a mark", "a\xffb", "a\uFFFDb"},
		{"a run of bad bytes becomes one mark", "\xff\xfe\xfd", "\uFFFD"},
		{"a split rune becomes a mark", "x\xe2\x82", "x\uFFFD"},
		{"a zero byte stays", "a\x00b", "a\x00b"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			if got := job.CutReason(tt.reason); got != tt.want {
				t.Errorf("got %d bytes %.40q, want %d bytes %.40q", len(got), got, len(tt.want), tt.want)
			}
		})
	}
}

func TestCutReasonOfAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := string(rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "unit"))
		reason := strings.Repeat(unit, rapid.IntRange(0, 2000).Draw(t, "times"))
		got := job.CutReason(reason)
		switch {
		case !utf8.ValidString(got):
			t.Fatalf("not valid UTF-8: %q", got)
		case len(got) > job.MaxReasonSize:
			t.Fatalf("%d bytes", len(got))
		case job.CutReason(got) != got:
			t.Fatalf("cutting twice differs from cutting once: %q", got)
		case utf8.ValidString(reason) && !strings.HasSuffix(reason, strings.TrimPrefix(got, "... ")):
			t.Fatalf("not the end of the reason: %q", got)
		}
	})
}
