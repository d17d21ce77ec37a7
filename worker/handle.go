package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/weft-fabric/weft/job"
)

// panicLength is how much of a panic's value a reason repeats, in bytes; the log
// has all of it.
const panicLength = 500

// handle calls the handler and reports how it ended, however that was. A
// handler that leaves by runtime.Goexit assigns no outcome, so the first one
// stands.
func (a *attempt) handle(ctx context.Context) {
	outcome := job.Failed("handler exited its goroutine")
	defer func() { a.finish(ending{outcome: outcome, cause: context.Cause(ctx)}) }()
	defer func() {
		if value := recover(); value != nil {
			text := fmt.Sprint(value)
			a.task.Log().Error("handler panicked", "panic", text, "stack", string(debug.Stack()))
			outcome = job.Failed("panic: " + oneLine(text))
		}
	}()
	outcome = a.stage.handler.Work(ctx, &a.task)
}

// oneLine folds all white space to single spaces and cuts the text.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > panicLength {
		text = text[:panicLength] + "..."
	}
	return strings.ToValidUTF8(text, "")
}
