// Package stream is where work waits: one work-queue stream a stage, whose
// messages, the items, say that a job may be ready. It makes the topology,
// publishes and schedules items, pulls them exactly as many as asked for, and
// speaks the vocabulary of acknowledgement. It knows nothing of records.
//
// The rule behind it: an item is only a hint. JetStream does not fence
// acknowledgements, so a stale one can remove an item that another worker holds;
// whoever acknowledges must first have won the record. A Delivery therefore
// remembers until when it may be acknowledged, and refuses after that.
package stream
