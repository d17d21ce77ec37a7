// Package bench measures the fabric against raw JetStream in the same run, since
// machines differ and are noisy: what a figure means is its ratio to the bound
// that the raw figures of its own run give.
//
// It needs a server and leaves nothing behind on it: everything happens in a
// namespace of its own that is removed in the end.
package bench
