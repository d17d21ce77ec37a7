// Package noderunner holds a runner in JavaScript, which takes part in a fabric by
// docs/protocol.md alone, and the tests that run it beside a Go worker. There is
// no Go to import here.
package noderunner
