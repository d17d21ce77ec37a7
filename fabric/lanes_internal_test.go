package fabric

import (
	"slices"
	"testing"
)

// serve lets lanes that have the given numbers of jobs be served n times, and counts
// what each had.
func serve(s *laneShares, jobs map[int]int, n int) map[int]int {
	served := map[int]int{}
	lanes := []int{1, 2, 3, 4}
	untried := slices.Clone(lanes)
	for n > 0 && len(untried) > 0 {
		lane := s.next(untried)
		if jobs[lane] == 0 {
			s.empty(lane)
			untried = slices.DeleteFunc(untried, func(l int) bool { return l == lane })
			continue
		}
		jobs[lane]--
		served[lane]++
		s.served(lane)
		n--
		untried = slices.Clone(lanes)
	}
	return served
}

func TestLanesAreServedByWeight(t *testing.T) {
	const many = 10_000
	for _, c := range []struct {
		name string
		jobs map[int]int
		n    int
		want map[int]int
	}{
		{"all full", map[int]int{1: many, 2: many, 3: many, 4: many}, 150, map[int]int{1: 80, 2: 40, 3: 20, 4: 10}},
		{"the first and the last", map[int]int{1: many, 4: many}, 90, map[int]int{1: 80, 4: 10}},
		{"an empty lane's share goes to the others", map[int]int{2: many, 4: many}, 50, map[int]int{2: 40, 4: 10}},
		{"one alone", map[int]int{4: many}, 50, map[int]int{4: 50}},
		{"a few urgent ones", map[int]int{1: 3, 3: many}, 20, map[int]int{1: 3, 3: 17}},
	} {
		s := &laneShares{}
		s.use([]int{1, 2, 3, 4})
		got := serve(s, c.jobs, c.n)
		for lane := 1; lane <= 4; lane++ {
			if d := got[lane] - c.want[lane]; d < -1 || d > 1 {
				t.Errorf("%s: served %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// A lane that had nothing for long is neither owed nor owing.
func TestLaneThatWasEmptyIsServedAtOnceAndNotAlone(t *testing.T) {
	s := &laneShares{}
	s.use([]int{1, 2, 3, 4})
	serve(s, map[int]int{3: 1000}, 1000)
	if got := serve(s, map[int]int{1: 1, 3: 10}, 1); got[1] != 1 {
		t.Fatalf("an urgent job is not the next: %v", got)
	}
	if got := serve(s, map[int]int{3: 100, 4: 100}, 30); got[4] < 9 || got[4] > 11 {
		t.Fatalf("after an idle time lanes 3 and 4 are served as %v", got)
	}
	// Polling that finds nothing moves nobody back.
	for range 100 {
		serve(s, map[int]int{}, 1)
	}
	if got := serve(s, map[int]int{1: 100, 4: 100}, 18); got[4] < 1 || got[4] > 3 {
		t.Fatalf("after a long silence lanes 1 and 4 are served as %v", got)
	}
}

func TestPortionOfALane(t *testing.T) {
	for _, c := range []struct {
		n, lane int
		lanes   []int
		want    int
	}{
		{1, 4, []int{1, 2, 3, 4}, 1},
		{64, 1, []int{1, 2, 3, 4}, 35},
		{64, 4, []int{1, 2, 3, 4}, 5},
		{64, 4, []int{4}, 64},
		{8, 3, []int{3, 4}, 6},
	} {
		if got := portion(c.n, c.lane, c.lanes); got != c.want {
			t.Errorf("of %d slots lane %d of %v gets %d, want %d", c.n, c.lane, c.lanes, got, c.want)
		}
	}
}
