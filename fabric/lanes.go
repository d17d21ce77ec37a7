package fabric

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/weft-fabric/weft/stream"
)

// The lanes of a stage share its workers by weight, so that a lane which is always
// full cannot keep the others waiting for ever. It is fair queueing by virtual time
// (Golestani's self-clocked form): each lane has a tag, the time at which its next
// job would be done if every lane had a machine of its own, as fast as its weight.
// The smallest tag is served next. A lane that has nothing gets a new tag from now,
// so it saves up nothing, its share goes to the others, and a job that comes to an
// urgent lane is next.

// laneWeight is how many jobs of a priority are begun for one of priority 4, while
// all lanes have jobs.
var laneWeight = map[int]float64{1: 8, 2: 4, 3: 2, 4: 1}

// laneShares is what the workers of one process have begun of each lane of a
// stage. It is the process's and not a worker's: one that asks for a single job and
// ends, as those of the service API do, would otherwise always begin with lane 1.
type laneShares struct {
	mu   sync.Mutex
	now  float64         // guarded by mu: virtual time
	turn float64         // guarded by mu: the tag that was the smallest when last asked
	tag  map[int]float64 // guarded by mu: of the lanes in use, by priority
}

// use notes which lanes are in use. One that was not begins now.
func (s *laneShares) use(lanes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tag == nil {
		s.tag = map[int]float64{}
	}
	for _, lane := range lanes {
		if _, known := s.tag[lane]; !known {
			s.tag[lane] = s.now + 1/laneWeight[lane]
		}
	}
}

// next is the lane, of those given in the order of priority, that is served now.
func (s *laneShares) next(lanes []int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	lane := slices.MinFunc(lanes, func(a, b int) int { return cmp.Compare(s.tag[a], s.tag[b]) })
	s.turn = s.tag[lane]
	return lane
}

// served notes that a job of the lane is begun. Time goes on to the tag that was
// asked by, and not to those of all jobs of a portion: the lanes that have nothing
// meanwhile are not to wait for them.
func (s *laneShares) served(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = max(s.now, min(s.turn, s.tag[lane]))
	s.tag[lane] += 1 / laneWeight[lane]
}

// empty notes that a lane has nothing now.
func (s *laneShares) empty(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tag[lane] = s.now + 1/laneWeight[lane]
}

// portion is how many of n jobs a lane may give at once, of lanes that all may have
// some: its share, so that the slots of a large worker do not all go to one.
func portion(n, lane int, lanes []int) int {
	all := 0.0
	for _, l := range lanes {
		all += laneWeight[l]
	}
	return max(1, int(math.Ceil(float64(n)*laneWeight[lane]/all)))
}

// askInTurn asks lane after lane for what is there now, beginning with the one whose
// turn it is, and reports whether something is asked for. What was asked for before
// is awaited first: with two questions under way more would come than is wanted.
func (t *taker) askInTurn() bool {
	for _, p := range t.pullers {
		if p.Asking() {
			return true
		}
	}
	for len(t.untried) > 0 {
		lane := t.shares.next(t.untried)
		t.retry(lane)
		room := t.Room()
		if room == 0 {
			return true
		}
		i := slices.IndexFunc(t.pullers, func(p *stream.Puller) bool { return p.Lane() == lane })
		if !t.pullers[i].Probe(portion(room, lane, t.untried), t.wake) {
			return true
		}
		t.shares.empty(lane)
		t.untried = slices.DeleteFunc(t.untried, func(l int) bool { return l == lane })
	}
	return false
}
