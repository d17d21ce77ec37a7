package natstest

import (
	"testing"
	"time"
)

// pollEvery is how often Eventually looks.
const pollEvery = 5 * time.Millisecond

// Eventually looks again and again whether ok holds, and fails the test with what
// was waited for when it does not hold within the time.
func Eventually(tb testing.TB, within time.Duration, what string, ok func() bool) {
	tb.Helper()
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for end := time.After(within); !ok(); {
		select {
		case <-end:
			tb.Fatalf("not within %s: %s", within, what)
		case <-look.C:
		}
	}
}
