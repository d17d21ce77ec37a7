// Package job says what a job is: its specification, its record, the lease
// token a worker holds, and every transition between states as a pure function.
//
// The package has no I/O, reads no clock and knows nothing of NATS; it imports
// the standard library alone, and each function takes the present time as an
// argument. A caller loads a record, runs one transition and stores the result
// by compare-and-set. Because a transition never changes its receiver, a refused
// write costs nothing: load again, run the same function again.
//
// The rule the transitions keep: a job has at most one holder, the holder is
// named by a fence that only grows, and whoever cannot show a token that matches
// the record in every field changes nothing. That is why a stale worker is
// harmless however late it comes back.
package job
