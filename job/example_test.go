package job_test

// Examples of the two lives that matter: a job that goes well, and one whose
// first worker comes back after another has taken over.

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-fabric/weft/job"
)

// A job's life: made, claimed, renewed and completed. The caller brings the time
// and stores each result.
func Example() {
	start := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	j, err := job.New(job.Spec{ID: "jb_1", Stage: "build", InputRef: "s3://in/1", MaxAttempts: 3}, start)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(j, j.State)

	j, token, err := j.Claim("rn_a", start.Add(time.Second), 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(j.State, "by", token.WorkerID, "until", token.ExpiresAt.Format(time.TimeOnly))

	j, token, err = j.Renew(token, "rn_a", start.Add(11*time.Second), 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("renewed until", token.ExpiresAt.Format(time.TimeOnly))

	j, err = j.Complete(token, "rn_a", "s3://out/1", start.Add(20*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(j.State, "with", j.OutputRef, "at attempt", j.Attempt)
	// Output:
	// build/jb_1 waiting
	// leased by rn_a until 09:00:31
	// renewed until 09:00:41
	// succeeded with s3://out/1 at attempt 1
}

// A worker that fell silent comes back after its lease ran out and another
// worker took the job over: whatever it says changes nothing.
func ExampleJob_Complete_stale() {
	start := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	waiting, err := job.New(job.Spec{ID: "jb_1", Stage: "build", InputRef: "s3://in/1", MaxAttempts: 3}, start)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, slow, err := waiting.Claim("rn_slow", start, 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, quick, err := first.Claim("rn_quick", start.Add(31*time.Second), 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("fences", slow.Fence, "and", quick.Fence)

	_, err = second.Complete(slow, "rn_slow", "s3://out/slow", start.Add(40*time.Second))
	fmt.Println(err, errors.Is(err, job.ErrStaleLease))

	done, err := second.Complete(quick, "rn_quick", "s3://out/quick", start.Add(45*time.Second))
	fmt.Println(done.OutputRef, err)
	// Output:
	// fences 1 and 2
	// stale_lease true
	// s3://out/quick <nil>
}
