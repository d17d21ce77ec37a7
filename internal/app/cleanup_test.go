package app

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestCleanupsRunLastFirst(t *testing.T) {
	t.Parallel()
	var ran []string
	broken := errors.New("broken")
	var c cleanups
	for _, name := range []string{"one", "two", "three"} {
		c.add(name, func(context.Context) error {
			ran = append(ran, name)
			if name == "two" {
				return broken
			}
			return nil
		})
	}
	err := c.undo(t.Context())
	if want := []string{"three", "two", "one"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if !errors.Is(err, broken) || err.Error() != "stopping two: broken" {
		t.Errorf("got %v", err)
	}
	if err := c.undo(t.Context()); err != nil || len(ran) != 3 {
		t.Errorf("undone twice: %v, %v", ran, err)
	}
}
