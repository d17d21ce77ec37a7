package stream

import (
	"strconv"
	"strings"

	"github.com/weft-fabric/weft/job"
)

// Headers of an item.
const (
	// RevisionHeader is the revision of the record that the body repeats. It is
	// absent on a bare spec, which somebody published without the fabric.
	RevisionHeader = "Weft-Revision"
	scheduleHeader = "Nats-Schedule"
	targetHeader   = "Nats-Schedule-Target"
)

// names builds every subject and name from validated tokens, in one place.
type names struct{ namespace string }

// stream is the name of a stage's work stream.
func (n names) stream(stage string) string {
	return strings.ToUpper(n.namespace) + "_" + stage
}

// item is the subject of a job's item in its lane.
func (n names) item(stage string, lane int, id string) string {
	if lane == job.DefaultPriority {
		return n.namespace + ".work." + stage + "." + id
	}
	return n.namespace + ".lane." + stage + "." + strconv.Itoa(lane) + "." + id
}

// later is the subject of the schedule that becomes a job's item.
func (n names) later(stage, id string) string { return n.namespace + ".later." + stage + "." + id }

func (n names) subjects(stage string) []string {
	return []string{n.item(stage, job.DefaultPriority, "*"), n.namespace + ".lane." + stage + ".*.*", n.later(stage, "*")}
}

// consumer is the durable consumer of a lane.
func consumer(lane int) string {
	if lane == job.DefaultPriority {
		return "runners"
	}
	return "runners-" + strconv.Itoa(lane)
}

// stageOf takes the stage out of the subject of an item or a schedule.
func (n names) stageOf(subject string) (string, bool) {
	tokens := strings.SplitN(subject, ".", 4)
	if len(tokens) < 4 || tokens[0] != n.namespace {
		return "", false
	}
	return tokens[2], true
}

// parse takes stage, lane and job id out of an item's subject.
func (n names) parse(subject string) (stage string, lane int, id string, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.namespace+".")
	if !ok {
		return "", 0, "", false
	}
	tokens := strings.Split(rest, ".")
	switch {
	case len(tokens) == 3 && tokens[0] == "work":
		return tokens[1], job.DefaultPriority, tokens[2], true
	case len(tokens) == 4 && tokens[0] == "lane":
		lane, err := strconv.Atoi(tokens[2])
		return tokens[1], lane, tokens[3], err == nil
	}
	return "", 0, "", false
}
