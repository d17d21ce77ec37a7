package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ErrSignal is the cause of a context that a signal ended.
var ErrSignal = errors.New("stopped by a signal")

// stopSignals are those that ask the process to end. A hangup does, unless it is
// ignored as under nohup.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// Signals gives a context that the first stop signal ends, with ErrSignal, and a
// channel that the second one closes. The first means: finish what runs; the
// second: now. A third kills the process, since the default is back. stop must
// be called.
func Signals(parent context.Context) (ctx context.Context, second <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 2)
	signal.Notify(received, stopSignals()...)
	again, stopped, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if !awaitSignal(received, stopped) {
			return
		}
		cancel(ErrSignal)
		for first := time.Now(); ; {
			if !awaitSignal(received, stopped) {
				return
			}
			if time.Since(first) > sameSignal {
				break
			}
		}
		close(again)
		signal.Stop(received)
	}()
	return ctx, again, func() {
		signal.Stop(received)
		close(stopped)
		<-done
		cancel(context.Canceled)
	}
}

// sameSignal is how soon after the first a second signal is the same one sent
// twice: timeout(1) signals the process and then its group.
const sameSignal = 50 * time.Millisecond

// awaitSignal reports whether a signal came before the end.
func awaitSignal(received <-chan os.Signal, stopped <-chan struct{}) bool {
	select {
	case <-received:
		return true
	case <-stopped:
		return false
	}
}
