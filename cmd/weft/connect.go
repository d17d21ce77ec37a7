package main

import (
	"context"
	"errors"
	"time"

	"github.com/weft-fabric/weft/internal/app"
)

// callTimeout bounds one question to the fabric.
const callTimeout = 10 * time.Second

// with connects, runs do, and takes the connection down again.
func (p *program) with(ctx context.Context, s settings, name string, do func(context.Context, *app.App) error) (err error) {
	a, err := app.Start(ctx, app.Options{Config: s.Config, Logger: s.log, Name: "weft " + name, Version: programVersion()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	ctx, end := a.Refusals().Bound(ctx)
	defer end()
	return app.Refused(ctx, do(ctx, a))
}

// each calls do for each id, each within callTimeout, and goes on after an
// error. The exit code is that of the first one.
func (p *program) each(ctx context.Context, ids []string, do func(ctx context.Context, id string) error) error {
	var first error
	for _, id := range ids {
		err := p.bounded(ctx, func(ctx context.Context) error { return do(ctx, id) })
		if err == nil {
			continue
		}
		if refused, ok := errors.AsType[*app.RefusedError](app.Refused(ctx, err)); ok {
			return refused // so will be the others
		}
		p.complain(err)
		if first == nil {
			first = &app.QuietError{Code: app.ExitCode(err)}
		}
	}
	return first
}

func (p *program) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx)
}
