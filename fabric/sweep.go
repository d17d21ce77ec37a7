package fabric

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/kv"
)

// An input in the object store may serve any number of jobs, so it cannot go with
// one record. The keeper removes it when it is old and nothing mentions it. Old
// comes first: an input is put before its job is enqueued, and put again, which makes
// it young, before a new job is to use an old one. Inputs are removed by the sequence
// at which they were found old, so one that was put again meanwhile stays.

const (
	// sweepEvery is how often the keeper looks for inputs that are no longer used.
	sweepEvery = time.Hour
	// sweepFirst is how long after its election it first does: an election may be
	// one of many.
	sweepFirst = time.Minute
	// chunkRest is how long an upload may take before its chunks count as left behind.
	chunkRest = 24 * time.Hour
)

// sweeps removes inputs that are no longer used, again and again.
func (k *keeper) sweeps(ctx context.Context) {
	timer := time.NewTimer(sweepFirst)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := k.f.sweep(ctx, k.f.Now()); err != nil && ctx.Err() == nil {
			k.f.log.Warn("inputs not looked through, the keeper tries again", "in", sweepEvery, "error", err)
		}
		timer.Reset(sweepEvery)
	}
}

// sweep removes the inputs that are old at a time and that no record and no cron
// entry mentions, and chunks of uploads that came to no end.
func (f *Fabric) sweep(ctx context.Context, now time.Time) error {
	store := "OBJ_" + f.inputBucket()
	stream, err := f.js.Stream(ctx, store)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // nobody has put an input yet
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", store, err)
	}
	objects, err := f.js.ObjectStore(ctx, f.inputBucket())
	if err != nil {
		return fmt.Errorf("object store %s: %w", f.inputBucket(), err)
	}
	infos, err := objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return fmt.Errorf("object store %s: %w", f.inputBucket(), err)
	}
	old := map[string]*jetstream.ObjectInfo{}
	for _, info := range infos {
		if now.Sub(info.ModTime) > f.inputRest() {
			old[info.Name] = info
		}
	}
	if err := f.keepMentioned(ctx, old); err != nil {
		return err
	}
	for name, info := range old {
		removed, err := f.removeInput(ctx, stream, info)
		if err != nil {
			return fmt.Errorf("object %s: %w", name, err)
		}
		if removed {
			f.log.Info("input removed, nothing mentions it", "object", name, "size", info.Size, "put", info.ModTime)
		}
	}
	return f.removeChunks(ctx, stream, now)
}

// keepMentioned takes off the list what a record or a cron entry mentions, wherever:
// input_ref, payload, a member that Weft does not know, and also in one that cannot
// be read.
func (f *Fabric) keepMentioned(ctx context.Context, old map[string]*jetstream.ObjectInfo) error {
	mention := regexp.MustCompile(regexp.QuoteMeta(f.inputBucket()) + `\\?/([0-9a-zA-Z_-]+)`) // JSON may escape a slash
	for _, keys := range []string{kv.AllJobs, kv.AllCrons} {
		if len(old) == 0 {
			return nil
		}
		for e, err := range f.bucket.List(ctx, keys) {
			if err != nil {
				return err
			}
			for _, found := range mention.FindAllSubmatch(e.Value, -1) {
				delete(old, string(found[1]))
			}
		}
	}
	return nil
}

// removeInput removes an object, unless it has been put again since it was listed.
func (f *Fabric) removeInput(ctx context.Context, stream jetstream.Stream, info *jetstream.ObjectInfo) (bool, error) {
	meta := "$O." + f.inputBucket() + ".M." + base64.URLEncoding.EncodeToString([]byte(info.Name))
	msg, err := stream.GetLastMsgForSubject(ctx, meta)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var now jetstream.ObjectInfo
	if err := json.Unmarshal(msg.Data, &now); err != nil || now.NUID != info.NUID {
		return false, err
	}
	if err := stream.DeleteMsg(ctx, msg.Sequence); err != nil {
		if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // there is another one by now
			return false, nil
		}
		return false, err
	}
	return true, stream.Purge(ctx, jetstream.WithPurgeSubject("$O."+f.inputBucket()+".C."+info.NUID))
}

// removeChunks removes chunks that no object has, of uploads that were interrupted
// long ago. It lists chunks first: what is uploaded meanwhile is not among them.
func (f *Fabric) removeChunks(ctx context.Context, stream jetstream.Stream, now time.Time) error {
	prefix := "$O." + f.inputBucket() + ".C."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+"*"))
	if err != nil || len(info.State.Subjects) == 0 {
		return err
	}
	objects, err := f.js.ObjectStore(ctx, f.inputBucket())
	if err != nil {
		return err
	}
	infos, err := objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return err
	}
	for _, object := range infos {
		delete(info.State.Subjects, prefix+object.NUID)
	}
	for subject := range info.State.Subjects {
		last, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // the upload has given up
		}
		if err != nil {
			return err
		}
		if now.Sub(last.Time) <= chunkRest {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
		f.log.Info("chunks removed, their upload was interrupted", "object", strings.TrimPrefix(subject, prefix))
	}
	return nil
}
