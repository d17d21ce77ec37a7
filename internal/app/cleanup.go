package app

import (
	"context"
	"errors"
	"fmt"
)

// cleanups are the ways to undo what has been started, in the order of starting.
type cleanups struct{ steps []cleanup }

type cleanup struct {
	name string
	undo func(context.Context) error
}

// add registers the undoing of what has just come into being.
func (c *cleanups) add(name string, undo func(context.Context) error) {
	c.steps = append(c.steps, cleanup{name, undo})
}

// undo runs every step, the last first, also after one that failed. Running it
// again does nothing.
func (c *cleanups) undo(ctx context.Context) error {
	var errs []error
	for len(c.steps) > 0 {
		last := c.steps[len(c.steps)-1]
		c.steps = c.steps[:len(c.steps)-1]
		if err := last.undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
