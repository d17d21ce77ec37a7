package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/weft-fabric/weft/internal/natserr"
	"github.com/weft-fabric/weft/job"
)

// Headers of the server's atomic batches.
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

// SaveWith creates a job's record and writes another key in one atomic step:
// both or neither. Its errors are those of Swap; a *Conflict names the key that
// has moved. On one server it costs a flush of the disk, so it is for what cannot
// be done in two steps.
func (b *Bucket) SaveWith(ctx context.Context, j job.Job, other Write) (Record, error) {
	record := Write{Key: JobKey(j.ID), Value: encode(&j)}
	mark, retry, create := nuid.Next(), newRetry(), other.Revision == 0
	for {
		last, err := b.publishBatch(ctx, mark, record, other)
		if err == nil {
			return Record{Job: j, Revision: last - 1, Raw: record.Value}, nil
		}
		if !isConflict(err) && !natserr.Unknown(err) {
			return Record{}, fmt.Errorf("write %s and %s: %w", record.Key, other.Key, err)
		}
		mine, again, readErr := b.look(ctx, mark, &record, &other, create)
		if readErr != nil {
			return Record{}, readErr
		}
		if mine != 0 {
			return Record{Job: j, Revision: mine, Raw: record.Value}, nil
		}
		if again {
			continue
		}
		if wait(ctx, retry) != nil {
			return Record{}, undecided(record.Key, err)
		}
	}
}

// look reads both keys after a batch that was refused or not answered. mine is
// the record's revision if the batch was written after all; again means that a
// marker was in the way and is now expected. create says that the other key is to
// be created, as the record is.
func (b *Bucket) look(ctx context.Context, mark string, record, other *Write, create bool) (mine uint64, again bool, err error) {
	for _, w := range []*Write{record, other} {
		current, err := b.Get(ctx, w.Key)
		switch {
		case err != nil:
			return 0, false, undecided(w.Key, err)
		case current.Write == mark:
			return current.Revision, false, nil
		case (create || w == record) && current.steppedOver(w):
			again = true
		case current.Revision != w.Revision:
			return 0, false, &Conflict{Key: w.Key, Current: current}
		}
	}
	return 0, again, nil
}

// batchAnswer is what the server says to the last message of a batch.
type batchAnswer struct {
	Error *jetstream.APIError `json:"error"`
	Seq   uint64              `json:"seq"`
}

// publishBatch sends the writes as one batch and returns the last one's
// revision.
func (b *Bucket) publishBatch(ctx context.Context, mark string, writes ...Write) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	id, nc := nuid.Next(), b.js.Conn()
	for i, w := range writes {
		m := newMessage()
		m.fill(b, &w, mark)
		msg := &m.msg
		msg.Header.Set(batchID, id)
		msg.Header.Set(batchSequence, strconv.Itoa(i+1))
		if i < len(writes)-1 {
			if err := nc.PublishMsg(msg); err != nil {
				return 0, err
			}
			continue
		}
		msg.Header.Set(batchCommit, "1")
		return commit(ctx, nc, msg)
	}
	return 0, errors.New("empty batch")
}

func commit(ctx context.Context, nc *nats.Conn, msg *nats.Msg) (uint64, error) {
	reply, err := nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return 0, err
	}
	var answer batchAnswer
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return 0, err
	}
	if answer.Error != nil {
		return 0, answer.Error
	}
	return answer.Seq, nil
}
