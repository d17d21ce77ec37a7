package job_test

// The transition vectors, run through the public API from JSON to JSON. They
// prove that this package and the model that the vectors were drawn from agree
// on every guard, on the order of the guards, and on the wire form; and that no
// transition, refused or not, touches the job it was called on.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

const vectorCount = 1500

// vector is one line of transitions.jsonl. Durations are milliseconds.
type vector struct {
	Op   string
	Args json.RawMessage
	Want map[string]any
}

type vectorArgs struct {
	Job           *job.Job
	Token         job.Token
	Worker        string
	Now           time.Time
	Lease         int64
	RetryDelay    int64  `json:"retry_delay"`
	OutputRef     string `json:"output_ref"`
	Reason        string
	ExpectedFence int64    `json:"expected_fence"`
	DependencyID  string   `json:"dependency_id"`
	Dependency    *job.Job `json:"dependency"`
}

// vectorIgnored are the members that the vectors do not speak of.
var vectorIgnored = []string{"created_at", "updated_at", "waiting_on", "item_seq", "attempts_log"}

func TestVectors(t *testing.T) {
	t.Parallel()
	vectors := readVectors(t)
	if len(vectors) != vectorCount {
		t.Fatalf("read %d vectors, want %d", len(vectors), vectorCount)
	}
	ops := map[string]int{}
	for i, v := range vectors {
		ops[v.Op]++
		t.Run(fmt.Sprintf("%s/line%d", v.Op, i+1), func(t *testing.T) { checkVector(t, v) })
	}
	want := []string{
		"cancel", "claim", "complete", "dependency_error", "expire", "fail", "fail_permanently", "new", "renew", "retry",
	}
	if got := slices.Sorted(maps.Keys(ops)); !slices.Equal(got, want) {
		t.Errorf("the vectors cover %v, want %v", got, want)
	}
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	file, err := os.Open("testdata/transitions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var vectors []vector
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", len(vectors)+1, err)
		}
		vectors = append(vectors, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return vectors
}

func checkVector(t *testing.T, v vector) {
	if v.Op == "new" {
		result, err := job.New(decodeSpec(t, string(v.Args)), t0)
		compareVector(t, v, result, job.Token{}, err)
		return
	}
	var args vectorArgs
	if err := json.Unmarshal(v.Args, &args); err != nil {
		t.Fatalf("args: %v", err)
	}
	if v.Op == "dependency_error" {
		compareVector(t, v, job.Job{}, job.Token{}, job.DependencyError(args.DependencyID, args.Dependency))
		return
	}
	watched, untouched := watch(*args.Job)
	result, token, err := applyVector(t, v.Op, watched, args)
	if !untouched() {
		t.Errorf("%s changed the job it was called on", v.Op)
	}
	if err != nil && !reflect.DeepEqual(result, job.Job{}) {
		t.Errorf("%s was refused and gave a job all the same: %#v", v.Op, result)
	}
	compareVector(t, v, result, token, err)
}

func applyVector(t *testing.T, op string, j job.Job, a vectorArgs) (result job.Job, token job.Token, err error) {
	t.Helper()
	lease, delay := time.Duration(a.Lease)*time.Millisecond, time.Duration(a.RetryDelay)*time.Millisecond
	switch op {
	case "claim":
		return j.Claim(a.Worker, a.Now, lease)
	case "renew":
		return j.Renew(a.Token, a.Worker, a.Now, lease)
	case "complete":
		result, err = j.Complete(a.Token, a.Worker, a.OutputRef, a.Now)
	case "fail":
		result, err = j.Fail(a.Token, a.Worker, a.Reason, a.Now, delay)
	case "fail_permanently":
		result, err = j.FailPermanently(a.Token, a.Worker, a.Reason, a.Now)
	case "expire":
		result, err = j.Expire(a.ExpectedFence, a.Now)
	case "cancel":
		result, err = j.Cancel(a.ExpectedFence, a.Reason, a.Now)
	case "retry":
		result, err = j.Retry(a.ExpectedFence, a.Reason, a.Now)
	default:
		t.Fatalf("op %q is unknown", op)
	}
	return result, job.Token{}, err
}

// compareVector compares what came out with what the vector wants, as values.
func compareVector(t *testing.T, v vector, result job.Job, token job.Token, err error) {
	t.Helper()
	got := map[string]any{}
	switch {
	case err != nil:
		got["refused"] = wireValues(t, refusal(t, err))
	case v.Op == "dependency_error":
		got["job"] = nil
	default:
		got["job"] = wireValues(t, result)
		if token != (job.Token{}) {
			got["token"] = wireValues(t, token)
		}
	}
	for _, part := range v.Want {
		tidyTimes(part)
	}
	if !reflect.DeepEqual(got, v.Want) {
		t.Errorf("args %s\n got %v\nwant %v", v.Args, got, v.Want)
	}
}

// wireValues encodes value and gives the members that the vectors speak of.
func wireValues(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("encode %T: %v", value, err)
	}
	values := decodeMap(t, text)
	for _, name := range vectorIgnored {
		delete(values, name)
	}
	tidyTimes(values)
	return values
}

// tidyTimes writes the times of an object in one form, so that they compare as
// instants.
func tidyTimes(part any) {
	values, _ := part.(map[string]any)
	for name, value := range values {
		text, ok := value.(string)
		if !ok || !strings.HasSuffix(name, "_at") {
			continue
		}
		if instant, err := time.Parse(time.RFC3339Nano, text); err == nil {
			values[name] = instant.UTC().Format(time.RFC3339Nano)
		}
	}
}
