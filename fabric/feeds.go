package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/weft-fabric/weft/internal/natserr"
	"github.com/weft-fabric/weft/internal/topology"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/kv"
)

// A feed of outcomes is a key with its settings, which is the truth, and a consumer
// of the bucket, which follows the key. With the key, a consumer that somebody has
// deleted is made anew as it was, by whoever takes of it next, and a feed that was
// removed on purpose is not.

// ErrMissingFeed means that there is no such feed of outcomes.
var ErrMissingFeed = errors.New("there is no such feed of outcomes")

// FeedConflict is a setting of a feed that a taker wants to be another. Takers of
// one feed share what comes, so they cannot want different jobs.
type FeedConflict struct {
	Name       string
	Setting    string
	Have, Want string
}

// Error names the setting and the way out.
func (e *FeedConflict) Error() string {
	return fmt.Sprintf("feed %s was made with %s %s, not %s; ask for the same, take another name, or remove it with weft job outcomes rm %s",
		e.Name, e.Setting, e.Have, e.Want, e.Name)
}

// ofFeed says which feed an error is about, unless it does.
func ofFeed(name string, err error) error {
	if _, named := errors.AsType[*FeedConflict](err); named {
		return err
	}
	return fmt.Errorf("feed %s: %w", name, err)
}

// FeedSettings are what all takers of a feed share. They are fixed when it is made.
type FeedSettings struct {
	Name    string
	Filter  Filter        // which outcomes; Limit and After are not used
	AckWait time.Duration // how long an outcome may be with a taker that is gone
	After   uint64        // the revision of the bucket behind which it begins, 0 is the start
	Created time.Time
}

// feedJSON is the stored form.
type feedJSON struct {
	Name    string            `json:"name"`
	Stage   string            `json:"stage,omitempty"`
	States  []job.State       `json:"states,omitempty"`
	Key     string            `json:"key,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	AckWait string            `json:"ack_wait"` // Go duration
	After   uint64            `json:"after"`
	Created time.Time         `json:"created_at"`
}

func (s FeedSettings) encode() ([]byte, error) {
	return json.Marshal(feedJSON{
		Name: s.Name, Stage: s.Filter.Stage, States: s.Filter.States, Key: s.Filter.Key, Labels: s.Filter.Labels,
		AckWait: s.AckWait.String(), After: s.After, Created: s.Created,
	})
}

func decodeFeed(e kv.Entry) (FeedSettings, error) {
	var stored feedJSON
	s := FeedSettings{}
	s.Name, _ = kv.FeedOf(e.Key)
	err := json.Unmarshal(e.Value, &stored)
	if err == nil {
		s.AckWait, err = time.ParseDuration(stored.AckWait)
	}
	if err == nil && s.AckWait < MinAckWait {
		err = fmt.Errorf("ack_wait %s is below %s", s.AckWait, MinAckWait)
	}
	if err != nil {
		return s, fmt.Errorf("key %s: %w: %w", e.Key, kv.ErrUnreadable, err)
	}
	s.Filter = Filter{Stage: stored.Stage, States: stored.States, Key: stored.Key, Labels: stored.Labels}
	s.After, s.Created = stored.After, stored.Created
	return s, nil
}

func (s FeedSettings) config() kv.FeedConfig {
	return kv.FeedConfig{Name: s.Name, After: s.After, AckWait: s.AckWait}
}

// suits refuses a taker that wants other outcomes than the feed has.
func (s FeedSettings) suits(want FeedSettings) error {
	have, w := s.Filter, want.Filter
	conflict := func(setting string, have, want any) error {
		return &FeedConflict{s.Name, setting, orAny(fmt.Sprint(have)), orAny(fmt.Sprint(want))}
	}
	switch {
	case have.Stage != w.Stage:
		return conflict("stage", have.Stage, w.Stage)
	case !slices.Equal(have.States, w.States):
		return conflict("states", have.States, w.States)
	case have.Key != w.Key:
		return conflict("key", have.Key, w.Key)
	case !maps.Equal(have.Labels, w.Labels):
		return conflict("labels", have.Labels, w.Labels)
	case want.AckWait != 0 && s.AckWait != want.AckWait:
		return conflict("ack-wait", s.AckWait, want.AckWait)
	}
	return nil
}

func orAny(text string) string {
	if text == "" || text == "[]" || text == "map[]" {
		return "any"
	}
	return text
}

var feedName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CheckFeedName refuses a name that could not be part of a consumer's.
func CheckFeedName(name string) error {
	if !feedName.MatchString(name) {
		return job.Invalid("feed name %.80q is not a-z or 0-9 followed by up to 63 of a-z 0-9 _ -", name)
	}
	return nil
}

// readFeed reads a feed's settings. It fails with ErrMissingFeed.
func (f *Fabric) readFeed(ctx context.Context, name string) (s FeedSettings, revision uint64, err error) {
	e, err := f.bucket.Get(ctx, kv.FeedKey(name))
	if err != nil {
		return s, 0, err
	}
	if !e.Exists() {
		return s, 0, ErrMissingFeed
	}
	s, err = decodeFeed(e)
	return s, e.Revision, err
}

// openPatience is how long it is tried to open a feed while nobody answers for it, as
// when its consumer, or the bucket, has no leader.
const openPatience = 30 * time.Second

// openFeedInTime is openFeed, repeated without an answer.
func (f *Fabric) openFeedInTime(ctx context.Context, want FeedSettings, o outcomeOptions) (s FeedSettings, feed *kv.Feed, err error) {
	for began := time.Now(); ; {
		s, feed, err = f.openFeed(ctx, want, o)
		if err == nil || !natserr.Unknown(err) || ctx.Err() != nil || time.Since(began) > openPatience {
			return s, feed, err
		}
		pause(ctx, openPause)
	}
}

// openPause is how long it waits in between.
const openPause = 250 * time.Millisecond

// openFeed gives a feed, which it makes when there is none of the name.
func (f *Fabric) openFeed(ctx context.Context, want FeedSettings, o outcomeOptions) (FeedSettings, *kv.Feed, error) {
	have, _, err := f.readFeed(ctx, want.Name)
	if errors.Is(err, ErrMissingFeed) {
		have, err = f.makeFeed(ctx, want, o.fromNow)
	}
	if o.asMade {
		want.Filter = have.Filter
	}
	if err == nil {
		err = have.suits(want)
	}
	if err != nil {
		return have, nil, err
	}
	feed, err := f.bucket.OpenFeed(ctx, have.config())
	return have, feed, err
}

// makeFeed writes the settings of a new feed. Another process may be faster; then
// they are that one's.
func (f *Fabric) makeFeed(ctx context.Context, s FeedSettings, fromNow bool) (FeedSettings, error) {
	if fromNow {
		last, err := f.bucket.LastRevision(ctx)
		if err != nil {
			return s, err
		}
		s.After = last
	}
	if s.AckWait == 0 {
		s.AckWait = DefaultAckWait
	}
	s.Created = f.Now()
	text, err := s.encode()
	if err != nil {
		return s, err
	}
	_, err = f.bucket.Swap(ctx, kv.Write{Key: kv.FeedKey(s.Name), Value: text})
	if movedOn(err) {
		s, _, err = f.readFeed(ctx, s.Name)
		return s, err
	}
	if err != nil {
		return s, err
	}
	// What a removal that was interrupted has left would go on where that one was.
	if err := f.bucket.RemoveFeed(ctx, s.Name); !errors.Is(err, kv.ErrFeedGone) {
		return s, err
	}
	return s, nil
}

// RemoveFeed ends a feed of outcomes: what it has not given is forgotten, and whoever
// takes of it ends with ErrMissingFeed. It fails with ErrMissingFeed when there is
// none.
func (f *Fabric) RemoveFeed(ctx context.Context, name string) error {
	if err := CheckFeedName(name); err != nil {
		return err
	}
	if err := f.removeFeed(ctx, name); err != nil {
		return ofFeed(name, explain(f.nc, err))
	}
	return nil
}

func (f *Fabric) removeFeed(ctx context.Context, name string) error {
	_, revision, err := f.readFeed(ctx, name)
	missing := errors.Is(err, ErrMissingFeed)
	if err != nil && !missing && !errors.Is(err, kv.ErrUnreadable) {
		return err
	}
	if !missing {
		if err := f.bucket.Delete(ctx, kv.FeedKey(name), revision); err != nil {
			return err
		}
	}
	err = f.bucket.RemoveFeed(ctx, name)
	if errors.Is(err, kv.ErrFeedGone) {
		if missing {
			return ErrMissingFeed
		}
		return nil
	}
	return err
}

// FeedStatus is a feed of outcomes and how far it has come.
type FeedStatus struct {
	FeedSettings
	kv.FeedDepth
	Drift string // how the consumer differs from what it must be; empty if it does not
	Err   error  // the settings cannot be read; the rest is not known
}

// Feeds lists the feeds of outcomes by name.
func (f *Fabric) Feeds(ctx context.Context) ([]FeedStatus, error) {
	stored, err := f.bucket.Few(ctx, kv.AllFeeds)
	if err != nil {
		return nil, explain(f.nc, err)
	}
	all := make([]FeedStatus, len(stored))
	for i, e := range stored {
		if all[i], err = f.feedStatus(ctx, e); err != nil {
			return nil, explain(f.nc, err)
		}
	}
	return all, nil
}

func (f *Fabric) feedStatus(ctx context.Context, e kv.Entry) (s FeedStatus, err error) {
	if s.FeedSettings, s.Err = decodeFeed(e); s.Err != nil {
		return s, nil
	}
	err = f.bucket.CheckFeed(ctx, s.config())
	if drift, ok := errors.AsType[*topology.DriftError](err); ok {
		s.Drift, err = drift.Error(), nil
	}
	if err != nil {
		return s, err
	}
	s.FeedDepth, err = f.bucket.FeedDepth(ctx, s.Name)
	if errors.Is(err, kv.ErrFeedGone) {
		err = nil // the drift says so
	}
	return s, err
}
