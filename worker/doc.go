// Package worker runs jobs: it owns handlers, slots, heartbeats, timeouts,
// panics and the drain. It never decides what becomes of a record and knows
// nothing of NATS: it sees the fabric through the interface Fabric, and imports
// nothing but the standard library and package job.
//
// A Worker has one dispatcher a stage, which asks the fabric for as many jobs as
// the stage has free slots, and for a few more while its handlers end so quickly
// that they would wait for the next claim (pace). Each claim is an attempt. A slot
// is a goroutine that calls one attempt's handler after another and asks for each
// settlement without waiting for it. Renewals come by a timer of the attempt, in a
// goroutine of their own; the attempt's lock sees to it that no two writes of one
// claim are ever under way at once. The handler hears of everything through its
// context: context.Cause names one of ErrTimeout, ErrCancelled, ErrLeaseLost and
// ErrDraining.
//
// The rule it keeps: a slot always comes back. A handler may panic, leave by
// runtime.Goexit, or ignore its cancelled context; at the latest StopGrace after
// the cancellation its slot and its lease are taken from it. That is safe, for
// whatever the handler does later carries an old fence, and its outcome is
// dropped.
//
// A worker that stops uses two contexts: the end of the first stops taking, the
// end of the second, Options.Drain later, cancels what still runs. A stop is no
// failed attempt: what it interrupts is released at no charge.
//
// Lease deadlines are the server's; a worker reckons from its own clock and from
// the moment it asked, only to pace renewals and to bound writes. Whether a
// lease still holds is for the fabric to say.
package worker
