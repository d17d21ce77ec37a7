//go:build race

package fabric_test

// raceEnabled: the race detector multiplies what memory a process has.
const raceEnabled = true
