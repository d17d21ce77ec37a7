// Package kv keeps records: the fabric's one KV bucket, read from the stream's
// leader and changed by revision-checked compare-and-set alone.
//
// It manages the bucket's stream itself, because the key-value manager of the
// client cannot ask for atomic batches and switches them off on an update. It
// knows keys and bytes, and jobs as far as decoding them; of the work queue it
// knows nothing.
//
// The rule it keeps: undecided is not refused. A write whose answer was lost, or
// that was refused while the key still shows the revision it expected, is
// repeated at that revision until it succeeds or the revision moves. That is
// safe because a repeated write can succeed only once, and each write carries a
// random mark by which it recognises itself afterwards.
package kv
