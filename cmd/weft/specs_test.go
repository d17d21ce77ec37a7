package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/job"
)

// all lists the ids of the site's jobs.
func (s *site) all(t *testing.T) []string {
	t.Helper()
	var ids []string
	for j, err := range s.fabric.List(t.Context(), fabric.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	return ids
}

func TestBrokenLinesStopTheFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	good := `{"input_ref":"x"}` + "\n"
	for text, parts := range map[string][]string{
		good + `{"input_ref":"x"` + "\n":                                                        {":2: ", "unexpected end"},
		good + "\n\n" + `[1]` + "\n":                                                            {":4: ", "object"},
		good + `{"input_ref":"x","inputref":1}`:                                                 {":2: ", `unknown member "inputref"`},
		good + `{"input_ref":"x","state":"waiting"}`:                                            {":2: ", `"state"`, "only the fabric sets"},
		good + `{"input_ref":"x","attempt":1}`:                                                  {":2: ", `"attempt"`, "only the fabric sets"},
		good + `{"input_ref":"x","stage":"other"}`:                                              {":2: ", `"other"`, `"a"`},
		good + `{"input_ref":"x","max_attempts":0}`:                                             {":2: ", "max_attempts must be positive"},
		good + `{"input_ref":"x","max_attempts":-1}`:                                            {":2: ", "max_attempts"},
		good + `{"input_ref":"x","max_attempts":1.5}`:                                           {":2: ", "max_attempts"},
		good + `{"input_ref":""}`:                                                               {":2: ", "input_ref"},
		good + `{}`:                                                                             {":2: ", "input_ref"},
		good + `{"input_ref":"data:broken"}`:                                                    {":2: ", "data: URI"},
		good + `{"input_ref":"x","id":"a.b"}`:                                                   {":2: ", "id"},
		good + `{"input_ref":"x","priority":9}`:                                                 {":2: ", "priority 9"},
		good + `{"input_ref":"x","timeout":"soon"}`:                                             {":2: ", "timeout"},
		good + `{"input_ref":"x","available_at":"now"}`:                                         {":2: ", "available_at"},
		good + "{\"input_ref\":\"\xff\"}":                                                       {":2: ", "UTF-8"},
		good + `{"input_ref":"` + strings.Repeat("x", 200_000):                                  {":2: "},
		good + `{"input_ref":"` + strings.Repeat("x", 200_000) + `"}`:                           {":2: ", "131072"},
		good + `{"input_ref":"` + strings.Repeat("x", 2_000_000) + `"}` + "\n" + good:           {":2: ", "longer than 1048576"},
		`{"input_ref":"x","id":"i"}` + "\n\n" + `{"input_ref":"y","id":"i"}`:                    {":3: ", `id "i" is that of line 1`},
		good + `{"input_ref":"x","dependencies":["b","b"]}`:                                     {":2: ", "twice"},
		`{"input_ref":"x","id":"a","dependencies":["b"]}` + "\n" + `{"input_ref":"x","id":"b"}`: {":2: ", `line 1 depends on id "b"`},
		"\uFEFF{}": {":1: ", "input_ref"},
	} {
		file := writeFile(t, filepath.Join(t.TempDir(), "jobs.jsonl"), text)
		for _, args := range [][]string{
			s.args([]string{"enqueue", "a", "--jobs", file}),
			{"run", "a", "--jobs", file, "--", "sh", "-c", "echo ran >> " + file + ".ran"},
		} {
			r := weft(t, "", args...).want(t, app.ExitUsage, append(parts, "jobs.jsonl", "nothing was enqueued")...)
			if r.out != "" {
				t.Errorf("%.80q: stdout is %q", text, r.out)
			}
		}
		if _, err := os.Stat(file + ".ran"); err == nil {
			t.Errorf("%.80q: a command ran", text)
		}
	}
	if ids := s.all(t); len(ids) > 0 {
		t.Errorf("%d jobs were enqueued", len(ids))
	}
}

func TestFewOfManyBrokenLinesAreTold(t *testing.T) {
	t.Parallel()
	r := weft(t, strings.Repeat("{\n", 1000), "enqueue", "a", "--jobs", "-").want(t, app.ExitUsage, "stdin:20:", "and 980 more", "1000 of 1000")
	if n := strings.Count(r.err, "\n"); n != shownErrors+2 {
		t.Errorf("%d lines on stderr", n)
	}
}

func TestKeepGoingEnqueuesTheRest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.weft(t, "enqueue", "a", "--input-ref", "other", "--id", "taken").want(t, app.ExitDone)
	text := strings.Join([]string{`{"input_ref":"1","id":"one"}`, `{"input_ref":`, `{"input_ref":"x","id":"taken"}`, `{"input_ref":"2","id":"two"}`}, "\n")
	r := weft(t, text, s.args([]string{"enqueue", "a", "--jobs", "-", "--keep-going"})...).want(t, app.ExitFailed, "stdin:2:", "stdin:3:", "duplicate_job")
	if r.out != "one\ntwo\n" {
		t.Errorf("stdout is %q", r.out)
	}
	again := weft(t, text, s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitUsage)
	if again.out != "" {
		t.Errorf("stdout is %q", again.out)
	}
	refused := weft(t, `{"input_ref":"x","id":"taken"}`, s.args([]string{"enqueue", "a", "--jobs", "-"})...)
	refused.want(t, app.ExitRefused, "stdin:1:", "duplicate_job")
}

func TestFilesAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	text := "\uFEFF" + `{"input_ref":"1","id":"one"}` + "\r\n\r\n  \r\n" + ` { "id" : "two", "stage":"a", "input_ref" : "2" } ` + "\r\n" + `{"input_ref":"3","id":"three"}`
	r := weft(t, text, s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitDone)
	if r.out != "one\ntwo\nthree\n" {
		t.Errorf("stdout is %q", r.out)
	}
	weft(t, "", s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitDone)
}

func TestTheSameLineTwiceIsOneJobIfItSaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	text := strings.Repeat(`{"input_ref":"1","id":"one"}`+"\n", 2) + strings.Repeat(`{"input_ref":"1"}`+"\n", 2)
	r := weft(t, text, s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitDone)
	if ids := s.all(t); len(r.lines()) != 4 || len(ids) != 3 {
		t.Errorf("printed %q, stored %q", r.lines(), ids)
	}
}

func TestALongSpecFits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	text := `{"id":"long","input_ref":"x","payload":"` + strings.Repeat("p", 130_000) + `"}`
	weft(t, text, s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitDone)
}

func TestIDsComeInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var text, want strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, `{"input_ref":"x","id":"job-%d"}`+"\n", i)
		fmt.Fprintf(&want, "job-%d\n", i)
	}
	fmt.Fprintf(&text, `{"input_ref":"x","id":"last","dependencies":["job-%d"]}`+"\n", 199)
	r := weft(t, text.String(), s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitDone)
	if r.out != want.String()+"last\n" {
		t.Errorf("stdout is %q", r.out)
	}
}

// batchOf makes a checked batch of a text.
func batchOf(t *testing.T, text string) *specBatch {
	t.Helper()
	file, err := openSpecs("-", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	fresh := func() *specChecker { return &specChecker{stage: "a", maxAttempts: 3, derive: true} }
	b, err := checkBatch(file, fresh, false, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func idsOf(t *testing.T, text string) []string {
	t.Helper()
	var ids []string
	for n, err := range batchOf(t, text).specs() {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, n.spec.ID)
	}
	return ids
}

func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	a, b := `{"input_ref":"a","payload":{"x":1,"y":2}}`, `{"input_ref":"b"}`
	ids := idsOf(t, a+"\n"+b+"\n"+a+"\n")
	if ids[0] == ids[2] || ids[0] == ids[1] {
		t.Errorf("ids are not unique: %q", ids)
	}
	for _, id := range ids {
		if err := job.CheckID(id); err != nil {
			t.Error(err)
		}
	}
	moved := idsOf(t, b+"\n"+a+"\n\n"+a)
	if want := []string{ids[1], ids[0], ids[2]}; !slices.Equal(moved, want) {
		t.Errorf("the ids depend on the order of different lines: %q, want %q", moved, want)
	}
	written := idsOf(t, `{ "payload": {"y":2, "x":1}, "stage":"a", "input_ref":"a" }`)
	if written[0] != ids[0] {
		t.Errorf("the id depends on how the line is written")
	}
	if other := idsOf(t, `{"input_ref":"a","payload":{"x":1.0,"y":2}}`); other[0] == ids[0] {
		t.Errorf("another payload has the same id")
	}
}

func TestAFileThatChangesIsNoticed(t *testing.T) {
	t.Parallel()
	path := writeFile(t, filepath.Join(t.TempDir(), "jobs.jsonl"), `{"input_ref":"a"}`)
	file, err := openSpecs(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fresh := func() *specChecker { return &specChecker{stage: "a", maxAttempts: 3} }
	b, err := checkBatch(file, fresh, false, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, `{"input_ref":"a"}`+"\n"+`{"input_ref":"b"}`)
	var last error
	for _, err := range b.specs() {
		last = err
	}
	if !errors.Is(last, errChanged) {
		t.Errorf("got %v", last)
	}
}

func TestFileIsEnqueuedInItsOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var lines []string
	for i := range 300 {
		line := fmt.Sprintf(`{"id":"j%d","input_ref":"x"`, i)
		if i%3 == 0 {
			line += `,"key":"k"`
		}
		if i%50 == 49 {
			line += fmt.Sprintf(`,"dependencies":["j%d"]`, i-1)
		}
		lines = append(lines, line+"}")
	}
	r := weft(t, strings.Join(lines, "\n"), s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitDone)
	for i, id := range r.lines() {
		if id != fmt.Sprint("j", i) {
			t.Fatalf("result %d is of %s", i, id)
		}
	}
	for i := range 300 { // of a key the last line wins
		j, err := s.fabric.Get(t.Context(), fmt.Sprint("j", i))
		if superseded := i%3 == 0 && i < 297; err != nil || (j.State == job.StateCancelled) != superseded {
			t.Fatalf("job %d: %v, %s", i, err, j.State)
		}
	}
}

func TestFileStopsAtARefusal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	weft(t, "", s.args([]string{"enqueue", "a", "--id", "j5", "--input-ref", "other"})...).want(t, app.ExitDone)
	var text strings.Builder
	const count = 20_000
	for i := range count {
		fmt.Fprintf(&text, `{"id":"j%d","input_ref":"x"}`+"\n", i)
	}
	r := weft(t, text.String(), s.args([]string{"enqueue", "a", "--jobs", "-"})...).want(t, app.ExitRefused, ":6: ", "duplicate_job")
	printed := r.lines()
	if there := s.all(t); len(printed)+1 != len(there) || len(printed) >= count-1 {
		t.Errorf("%d ids are printed, %d jobs are there", len(printed), len(there))
	}
}

func TestResumableFileIsEnqueuedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "jobs.jsonl"), strings.Repeat(`{"input_ref":"x"}`+"\n", 50)+`{"id":"own","input_ref":"x"}`)
	args := s.args([]string{"enqueue", "a", "--jobs", file, "--resumable"})
	first := weft(t, "", args...).want(t, app.ExitDone).lines()
	again := weft(t, "", args...).want(t, app.ExitDone).lines()
	if !slices.Equal(first, again) || len(first) != 51 || first[50] != "own" {
		t.Errorf("first %d ids, then others", len(first))
	}
	if n := len(s.all(t)); n != 51 {
		t.Errorf("%d jobs", n)
	}
	weft(t, "", s.args([]string{"enqueue", "a", "--input-ref", "x", "--resumable"})...).want(t, app.ExitUsage, "--resumable needs --jobs")
}

func TestPlainJSONOfAFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := weft(t, `{"input_ref":"x"}`+"\n"+`{"input_ref":"y"}`, s.args([]string{"enqueue", "a", "--jobs", "-", "--json"})...).want(t, app.ExitDone)
	for _, line := range r.lines() {
		var j job.Job
		if err := json.Unmarshal([]byte(line), &j); err != nil || j.State != job.StateWaiting {
			t.Errorf("%s: %v", line, err)
		}
	}
}
