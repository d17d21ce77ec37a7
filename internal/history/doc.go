// Package history proves the fabric's promises against itself: clients enqueue,
// claim, renew, settle, cancel and retry at random through real NATS servers,
// which are killed, frozen, cut off and made to change leaders, while workers
// stall, freeze and die, clocks disagree, items are doubled and withheld, and
// late acknowledgements arrive. Everything a client was told is written down, and
// a judge that knows the promises and not the code reads it afterwards.
//
// Servers are processes of their own, and so are some of the workers (child.go,
// process.go): this very program, started again. These workers are stopped in the
// middle of an operation for longer than their lease, and go on without having
// noticed; and they are killed. They say what they begin before they begin it
// (report.go), so that what a death cut off is known, with an unknown end. The
// other workers share the test's process: they die faster and more often, and
// only their connection is lost.
//
// The rule is that a history is legal if somebody who sees only what clients saw
// could believe that each job is one object which takes one step at a time. The
// judge looks six ways.
//
//   - Operations (model.go): for each job, porcupine looks for an order of its
//     operations, each somewhere between its call and its return, in which each
//     answer is right for the states of package job. An operation whose answer
//     was lost may have happened at any time after its call, or not at all. What
//     nobody was told of, a lease that ran out or a claim that was never handed
//     out or whose holder died before it could tell, is a step the model may
//     take, but a lease runs out no earlier than a lease after the call that began
//     it.
//   - Changes (feed.go, legal.go): every revision of a record, as the servers
//     republish it, must follow from the one before by a pure transition. Each
//     event names its predecessor, so a gap is known as one, and is allowed only
//     where a server was killed, was frozen or lost its lead.
//   - Outcomes (outcome.go): each settlement carries a mark of its own. A mark
//     in a record belongs to a settlement that was not refused, and an
//     acknowledged settlement's mark is in its record.
//   - Items (acks.go): nobody acknowledges the item by which a claim holds its job
//     before the record says that the claim has ended.
//   - Keys (key.go): no claim of a job is handed out that was written after a job
//     that supersedes it had been accepted.
//   - The end (drain.go): once the chaos stops, each accepted job ends within a
//     bounded time.
//
// That is sound because no check assumes an order that was not observed: calls
// and returns are on one machine's monotonic clock, which all its processes share
// (clock.go), and revisions are the servers' own. It is not complete: a wrong
// step that no client and no event could show passes, and so does what only
// another seed would try.
package history
