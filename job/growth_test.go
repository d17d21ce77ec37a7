package job_test

// Growth: however a job ends and whatever its handlers report, its record is at
// most that much larger than when it was made. This is what lets enqueueing
// promise that every later transition fits a message.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-fabric/weft/job"
)

// worstTexts are texts that grow when they are cut, made valid or written as JSON.
var worstTexts = map[string]string{
	"control characters":    "\x01",
	"markup":                "<",
	"quotes":                `"`,
	"line separators":       "\u2028",
	"three-byte runes":      "€",
	"four-byte runes":       "😀",
	"bad bytes":             "\xff",
	"bad bytes, one by one": "\xffa",
}

func TestRecordGrowsAtMostByGrowth(t *testing.T) {
	t.Parallel()
	worst := 0
	for name, unit := range worstTexts {
		reason := strings.Repeat(unit, 2*job.MaxReasonSize)
		for step, grown := range worstRecords(t, reason) {
			worst = max(worst, grown)
			if grown > job.Growth {
				t.Errorf("%s, %s: the record grew by %d bytes, more than %d", name, step, grown, job.Growth)
			}
		}
	}
	t.Logf("the most a record grew is %d of %d bytes", worst, job.Growth)
	if worst < job.Growth/2 {
		t.Errorf("Growth is twice what is needed, %d bytes", worst)
	}
}

// worstRecords gives, by the last step of a job's life, how many bytes its record
// grew: a full history of that reason, counters of most digits, times of most.
func worstRecords(t *testing.T, reason string) map[string]int {
	t.Helper()
	worker := strings.Repeat("W", job.MaxWorkerLength)
	now := t0.Add(999999999)
	j := mustNew(t, specWith(func(s *job.Spec) { s.MaxAttempts = math.MaxInt64 - 50 }))
	made := len(j.AppendJSON(nil))
	j.Attempt, j.Fence = math.MaxInt64-100, math.MaxInt64-100
	var token job.Token
	for range 12 {
		j, token = mustClaim(t, j, worker, now)
		j = must(t)(j.Fail(token, worker, reason, now, 0))
	}
	leased, token := mustClaim(t, j, worker, now)
	leased.ItemSeq = math.MaxUint64
	leased.Progress = json.RawMessage(`"` + strings.Repeat("p", job.MaxProgressSize-2) + `"`)

	records := map[string]job.Job{
		"leased":        leased,
		"retry_waiting": must(t)(leased.Fail(token, worker, reason, now, 0)),
		"returned":      must(t)(leased.Return(token, worker, reason, now, 0)),
		"released":      must(t)(leased.Release(token, worker, now)),
		"expired":       must(t)(leased.Expire(leased.Fence, now.Add(lease))),
		"failed":        must(t)(leased.FailPermanently(token, worker, reason, now)),
		"cancelled":     must(t)(leased.Cancel(leased.Fence, reason, now)),
	}
	for name, ref := range inlineOutputs() {
		records["succeeded with "+name] = must(t)(leased.Complete(token, worker, ref, now))
	}
	grown := map[string]int{}
	for step, record := range records {
		grown[step] = len(record.AppendJSON(nil)) - made
	}
	return grown
}

// inlineOutputs are the longest references that an output may be kept in.
func inlineOutputs() map[string]string {
	output := strings.Repeat("\xff", job.MaxInlineOutput)
	var percent strings.Builder
	for i := range len(output) {
		fmt.Fprintf(&percent, "%%%02X", output[i])
	}
	const media = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	return map[string]string{
		"base64":          "data:" + media + ";base64," + base64.StdEncoding.EncodeToString([]byte(output)),
		"percent signs":   "data:" + media + "," + percent.String(),
		"a reference":     strings.Repeat("r", job.MaxOutputRefSize-2),
		"an escaped one":  strings.Repeat("<", (job.MaxOutputRefSize-2)/6),
		"an everyday one": "nats-obj://weft-out/jb_1",
	}
}
