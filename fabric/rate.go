package fabric

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weft-fabric/weft/job"
)

// Rate is how many jobs of a stage may begin in a time, on all workers together.
// The zero Rate is no limit.
type Rate struct {
	Jobs  int           // in each Per
	Per   time.Duration // a second, a minute or an hour
	Burst int           // how many may begin at once after a quiet time
}

// units are what a rate may count in, by its letter.
var units = []struct {
	letter string
	per    time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

const (
	// fastest is the most jobs a second that a rate can hold workers to: each start
	// costs its share of a write to one key.
	fastest = 10_000
	// burstTime is how much of a rate may begin at once unless its burst is set.
	burstTime = 100 * time.Millisecond
)

// ParseRate reads a rate such as 100/s, 30/m or 5/h, with the burst that it gets if
// none is set: a tenth of a second's worth, and at least 1. 0 is no limit. It fails
// with job.ErrInvalidJob.
func ParseRate(text string) (Rate, error) {
	if text == "0" {
		return Rate{}, nil
	}
	count, unit, _ := strings.Cut(text, "/")
	jobs, err := strconv.Atoi(count)
	for _, u := range units {
		if err != nil || u.letter != unit || jobs < 1 || float64(jobs)/u.per.Seconds() > fastest {
			continue
		}
		r := Rate{Jobs: jobs, Per: u.per}
		r.Burst = max(1, int(burstTime/r.interval()))
		return r, nil
	}
	return Rate{}, job.Invalid("rate %.40q is not a number of jobs in a second, minute or hour, at most %d/s; give one like 100/s, 30/m or 5/h, and 0 for no limit", text, fastest)
}

// String is the form that ParseRate reads, without the burst.
func (r Rate) String() string {
	for _, u := range units {
		if r.Jobs > 0 && r.Per == u.per {
			return fmt.Sprintf("%d/%s", r.Jobs, u.letter)
		}
	}
	return "0"
}

// Limited reports whether there is a limit.
func (r Rate) Limited() bool { return r.Jobs > 0 }

// interval is the time that one job takes up of the rate.
func (r Rate) interval() time.Duration { return r.Per / time.Duration(r.Jobs) }

// depth is the time that a whole burst takes up.
func (r Rate) depth() time.Duration { return r.interval() * time.Duration(r.Burst) }

// grant is the generic cell rate algorithm (ITU-T I.371). tat is the time at which
// all that has begun would have begun at an even pace. It gives how many of n jobs
// may begin now and the new tat, and how long it takes until the next one may.
func (r Rate) grant(tat, now time.Time, n int) (granted int, next time.Time, wait time.Duration) {
	if end := now.Add(r.depth()); tat.After(end) { // set under a slower rate, or another clock
		tat = end
	}
	if tat.Before(now) {
		tat = now
	}
	free := r.depth() - tat.Sub(now)
	granted = max(0, min(n, int(free/r.interval())))
	next = tat.Add(time.Duration(granted) * r.interval())
	return granted, next, max(0, next.Sub(now)+r.interval()-r.depth())
}
