package kv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// fewHands is how many keys are read at once.
const fewHands = 16

// Few gives what the matching keys hold, in the order of the keys and without
// those that hold nothing. It is for keys that are few among very many: a watch,
// and so List, costs the server half a second when there are a million others,
// and this a question for their names and one for each.
func (b *Bucket) Few(ctx context.Context, patterns ...string) ([]Entry, error) {
	var keys []string
	for _, pattern := range patterns {
		matching, err := b.keys(ctx, pattern)
		if err != nil {
			return nil, fmt.Errorf("keys %s: %w", pattern, err)
		}
		keys = append(keys, matching...)
	}
	entries, errs := make([]Entry, len(keys)), make([]error, len(keys))
	var reading sync.WaitGroup
	hands := make(chan struct{}, fewHands)
	for i, key := range keys {
		hands <- struct{}{}
		reading.Go(func() {
			defer func() { <-hands }()
			entries[i], errs[i] = b.Get(ctx, key)
		})
	}
	reading.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return !e.Exists() }), nil
}

// keys are the names of the keys that match, also of those that hold a marker.
func (b *Bucket) keys(ctx context.Context, pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, "*>") {
		return []string{pattern}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, watchSilence)
	defer cancel()
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.prefix+pattern))
	if err != nil {
		return nil, err
	}
	keys := slices.Sorted(maps.Keys(info.State.Subjects))
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], b.prefix)
	}
	return keys, nil
}
