// Package fabric orders the two writes of every step in a job's life: the record
// in the bucket and the item in the work queue. It claims, renews and settles for
// workers, enqueues and answers for backends, and keeps what nobody holds moving.
// It never runs a handler.
//
// The rule is that the record is the truth and an item only a hint. On the way in
// the record is written before the item, on the way out before the
// acknowledgement. A crash between the two leaves at worst a hint too few, which
// the keeper replaces, or a hint too many, which the next taker finds void. That
// is safe because every change of a record is a compare-and-set of a pure
// transition, and it makes progress because each job that has not ended is, at
// every moment, held under a lease that runs out, or offered, or due to be.
//
// One job's life reads in file order: enqueue.go, claim.go, renew.go, settle.go,
// keeper.go.
package fabric
