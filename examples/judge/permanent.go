package main

import "fmt"

// permanentError marks a failure that every further attempt would meet again,
// so that the runner need not make one.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func permanentf(format string, args ...any) error {
	return permanentError{fmt.Errorf(format, args...)}
}
