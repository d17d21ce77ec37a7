package embed

import (
	"fmt"
	"log/slog"
)

// logger passes the server's log on. What the server notices in its normal life
// is detail here, hence debug.
type logger struct {
	log   *slog.Logger
	fatal chan string // the first fatal message, which ends the start
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log.With("component", "nats-server"), fatal: make(chan string, 1)}
}

func (l *logger) Noticef(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l *logger) Warnf(format string, args ...any)   { l.log.Warn(fmt.Sprintf(format, args...)) }
func (l *logger) Errorf(format string, args ...any)  { l.log.Error(fmt.Sprintf(format, args...)) }
func (l *logger) Debugf(format string, args ...any)  { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l *logger) Tracef(format string, args ...any)  { l.log.Debug(fmt.Sprintf(format, args...)) }

// Fatalf must not end the process, which is not the server's to end.
func (l *logger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.log.Error(text)
	select {
	case l.fatal <- text:
	default: // only the first is the cause
	}
}
