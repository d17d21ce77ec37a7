package api

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Quick is the option of an instance that soon lets go of silent workers.
func Quick(o *Options) { o.idle, o.sweep = 200*time.Millisecond, 20*time.Millisecond }

// Workers is how many workers an instance keeps something for.
func (s *Service) Workers() int {
	s.seats.mu.Lock()
	defer s.seats.mu.Unlock()
	return len(s.seats.taken)
}

// Fill takes every place of a verb until the returned function is called.
func (s *Service) Fill(verb string) (empty func()) {
	v, n := s.verbs[verb], 0
	for len(v.places) < cap(v.places) && v.enter(context.Background()) {
		n++
	}
	return func() {
		for range n {
			v.leave()
		}
	}
}

// InFlight is how many requests of a verb an instance works on.
func (s *Service) InFlight(verb string) int { return s.verbs[verb].counts().InFlight }

// CodeOf is the code that an error is answered with.
var CodeOf = codeOf

// FieldsOf are the member names of a verb's request, where a struct has them.
func FieldsOf() map[string][]string {
	return map[string][]string{
		"get": names(&getRequest{}), "list": names(&listRequest{}), "wait": names(&waitRequest{}),
		"cancel": names(&changeRequest{}), "retry": names(&changeRequest{}),
		"claim": names(&claimRequest{}), "renew": names(&renewRequest{}), "complete": names(&completeRequest{}),
		"fail": names(&failRequest{}), "release": names(&releaseRequest{}),
	}
}

func names(request any) []string {
	return slices.Sorted(maps.Keys(fieldsOf(reflect.ValueOf(request).Elem())))
}
