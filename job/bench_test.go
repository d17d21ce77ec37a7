package job_test

// What the record costs a worker: reading it, writing it, and one transition,
// for a record that is fresh and one whose history is full.

import (
	"strings"
	"testing"
	"time"

	"github.com/weft-fabric/weft/job"
)

// benchJobs are a job that has just been claimed and one that has been tried often.
func benchJobs(b *testing.B) map[string]job.Job {
	b.Helper()
	spec := specWith(func(s *job.Spec) {
		s.Payload = []byte(`{"commit":"0123456789abcdef","targets":["all","test"],"deadline":300}`)
		s.Labels = map[string]string{"team": "core", "repo": "weft"}
		s.MaxAttempts = 100
	})
	fresh, token := mustClaim(b, mustNew(b, spec), "rn_a", t0)
	tried, now := fresh, t0
	for range 12 {
		now = now.Add(time.Second)
		tried = must(b)(tried.Fail(token, "rn_a", strings.Repeat("x", 100), now, 0))
		tried, token = mustClaim(b, tried, "rn_a", now)
	}
	return map[string]job.Job{"fresh": fresh, "tried": tried}
}

func BenchmarkDecode(b *testing.B) {
	for name, j := range benchJobs(b) {
		text := j.AppendJSON(nil)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var read job.Job
				if err := read.UnmarshalJSON(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	for name, j := range benchJobs(b) {
		buffer := j.AppendJSON(nil)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(buffer)))
			for b.Loop() {
				buffer = j.AppendJSON(buffer[:0])
			}
		})
	}
}

func BenchmarkClaim(b *testing.B) {
	for name, j := range benchJobs(b) {
		now := j.LeaseExpiresAt
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := j.Claim("rn_b", now, lease); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
