package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// Offered reports whether a job has an item, taken or not, or a schedule.
func (q *Queue) Offered(ctx context.Context, stage string, lane int, id string) (there bool, err error) {
	for _, subject := range []string{q.names.item(stage, lane, id), q.names.later(stage, id)} {
		if _, there, err = q.last(ctx, stage, subject); there || err != nil {
			return there, err
		}
	}
	// A schedule that was there and fired between the two looks has become the item.
	_, there, err = q.last(ctx, stage, q.names.item(stage, lane, id))
	return there, err
}

// Scheduled gives the time of a job's schedule, zero if it cannot be told. It reports
// false when there is none.
func (q *Queue) Scheduled(ctx context.Context, stage, id string) (due time.Time, there bool, err error) {
	msg, there, err := q.last(ctx, stage, q.names.later(stage, id))
	if there {
		due = dueOf(&msg)
	}
	return due, there, err
}

// HasItems reports whether a lane of a stage holds any item.
func (q *Queue) HasItems(ctx context.Context, stage string, lane int) (there bool, err error) {
	_, there, err = q.last(ctx, stage, q.names.item(stage, lane, "*"))
	return there, err
}

// Find reads the item of a job that may be in any lane of a stage. It reports
// false when there is none.
func (q *Queue) Find(ctx context.Context, stage, id string) (Item, bool, error) {
	for lane := job.HighestPriority; lane <= job.LowestPriority; lane++ {
		msg, there, err := q.last(ctx, stage, q.names.item(stage, lane, id))
		if there || err != nil {
			return itemOf(&msg, stage, lane, id), there, err
		}
	}
	return Item{}, false, nil
}

// itemOf reads a stored item.
func itemOf(msg *jetstream.RawStreamMsg, stage string, lane int, id string) Item {
	revision, _ := strconv.ParseUint(msg.Header.Get(RevisionHeader), 10, 64)
	return Item{Stage: stage, Lane: lane, JobID: id, Body: msg.Data, Revision: revision, Trace: TraceOf(msg.Header.Get)}
}

// EachOffer gives the id of every job that has an item or a schedule in the
// stage's stream. It asks for them in pages, so that memory does not grow with
// their number. A stage without stream has none.
func (q *Queue) EachOffer(ctx context.Context, stage string, give func(id string)) error {
	return q.each(ctx, stage, q.names.namespace+".>", give)
}

// EachLater gives the id of every job that has a schedule in the stage's stream.
func (q *Queue) EachLater(ctx context.Context, stage string, give func(id string)) error {
	return q.each(ctx, stage, q.names.later(stage, "*"), give)
}

func (q *Queue) each(ctx context.Context, stage, filter string, give func(id string)) error {
	for offset := 0; ; {
		page, err := q.offers(ctx, stage, filter, offset)
		if err != nil {
			return fmt.Errorf("stage %s: %w", stage, err)
		}
		for subject := range page.State.Subjects {
			give(lastToken(subject))
		}
		offset += len(page.State.Subjects)
		if len(page.State.Subjects) == 0 || offset >= page.Total {
			return nil
		}
	}
}

// pageWait is how long one page may take, which the server sorts out of all
// subjects of the stream.
const pageWait = 30 * time.Second

// offersPage is the part of a stream's information that EachOffer reads. The
// client's own call would collect all pages first.
type offersPage struct {
	Error *jetstream.APIError `json:"error"`
	Total int                 `json:"total"`
	State struct {
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

func (q *Queue) offers(ctx context.Context, stage, filter string, offset int) (offersPage, error) {
	var page offersPage
	request, err := json.Marshal(map[string]any{"subjects_filter": filter, "offset": offset})
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	msg, err := q.nc.RequestWithContext(ctx, q.api+".STREAM.INFO."+q.names.stream(stage), request)
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(msg.Data, &page); err != nil {
		return page, err
	}
	if page.Error != nil && page.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		return offersPage{}, nil
	}
	if page.Error != nil {
		return page, page.Error
	}
	return page, nil
}
