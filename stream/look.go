package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/job"
)

// codeStreamNotFound is the server's code for a stream that does not exist.
const codeStreamNotFound jetstream.ErrorCode = 10059

// Offered reports whether a job has an item, taken or not, or a schedule.
func (q *Queue) Offered(ctx context.Context, stage string, lane int, id string) (bool, error) {
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stage %s: %w", stage, err)
	}
	for _, subject := range []string{q.names.later(stage, id), q.names.item(stage, lane, id)} {
		_, err := st.GetLastMsgForSubject(ctx, subject)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, fmt.Errorf("stage %s: %w", stage, err)
		}
	}
	return false, nil
}

// Scheduled gives the time of a job's schedule, zero if it cannot be told. It reports
// false when there is none.
func (q *Queue) Scheduled(ctx context.Context, stage, id string) (due time.Time, there bool, err error) {
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	var msg *jetstream.RawStreamMsg
	if err == nil {
		msg, err = st.GetLastMsgForSubject(ctx, q.names.later(stage, id))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrMsgNotFound) {
		return due, false, nil
	}
	if err != nil {
		return due, false, fmt.Errorf("stage %s: %w", stage, err)
	}
	return dueOf(msg), true, nil
}

// HasItems reports whether a lane of a stage holds any item.
func (q *Queue) HasItems(ctx context.Context, stage string, lane int) (bool, error) {
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err == nil {
		_, err = st.GetLastMsgForSubject(ctx, q.names.item(stage, lane, "*"))
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stage %s: %w", stage, err)
	}
	return true, nil
}

// Find reads the item of a job that may be in any lane of a stage. It reports
// false when there is none.
func (q *Queue) Find(ctx context.Context, stage, id string) (Item, bool, error) {
	st, err := q.js.Stream(ctx, q.names.stream(stage))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Item{}, false, nil
	}
	if err != nil {
		return Item{}, false, fmt.Errorf("stage %s: %w", stage, err)
	}
	for lane := job.HighestPriority; lane <= job.LowestPriority; lane++ {
		msg, err := st.GetLastMsgForSubject(ctx, q.names.item(stage, lane, id))
		if err == nil {
			revision, _ := strconv.ParseUint(msg.Header.Get(RevisionHeader), 10, 64)
			return Item{Stage: stage, Lane: lane, JobID: id, Body: msg.Data, Revision: revision, Trace: TraceOf(msg.Header.Get)}, true, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return Item{}, false, fmt.Errorf("stage %s: %w", stage, err)
		}
	}
	return Item{}, false, nil
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
	if page.Error != nil && page.Error.ErrorCode == codeStreamNotFound {
		return offersPage{}, nil
	}
	if page.Error != nil {
		return page, page.Error
	}
	return page, nil
}
