// Package api is the service API: a NATS micro service, named after the
// namespace, that answers requests on <namespace>.api.<verb>. Backends enqueue,
// get, list, cancel, retry and wait; runners in any language claim, renew,
// complete, fail and release without speaking the protocol below. docs/api.md is
// its page.
//
// It owns the form of requests and answers, and what is needed to act for workers
// that are not in the process. It decides nothing about jobs: every verb is one
// call of fabric.
//
// The rule is that an instance keeps nothing that another one needs. Several may
// run, each request goes to any of them, and a token is settled by whichever gets
// it: the one that made the claim, or another that takes the claim up from its
// record. That is safe because a settlement is a compare-and-set of the record,
// whoever makes it, and it makes progress because a claim that no instance holds
// any more is still leased to its worker until the lease runs out.
package api
