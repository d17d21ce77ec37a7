package main

import (
	"encoding/json"
	"io"
)

// maxRecordBytes bounds the record: a source in a data: URI has to fit in it.
const maxRecordBytes = 4 << 20

// record is the part of a job record that the judge reads.
type record struct {
	ID       string  `json:"id"`
	Attempt  int     `json:"attempt"`
	InputRef string  `json:"input_ref"`
	Payload  payload `json:"payload"`
}

// payload is what a submitter says about the submission.
type payload struct {
	Problem  string `json:"problem"`
	Language string `json:"language"`
	Fault    string `json:"fault"`
}

// faultFirstAttempt makes the judge itself fail on attempt 1, which shows that
// a runner failure is retried while a bad verdict is not.
const faultFirstAttempt = "first_attempt"

func readRecord(r io.Reader) (record, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRecordBytes+1))
	switch {
	case err != nil:
		return record{}, err
	case len(data) > maxRecordBytes:
		return record{}, permanentf("the record on standard input is longer than %d bytes; put the source in a file and name it by input_ref", maxRecordBytes)
	}
	return parseRecord(data)
}

func parseRecord(data []byte) (record, error) {
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil {
		return record{}, permanentf("standard input is not a job record (%w); it must be one JSON object with input_ref and a payload that names problem and language", err)
	}
	switch rec.Payload.Fault {
	case "", faultFirstAttempt:
		return rec, nil
	default:
		return record{}, permanentf("payload member fault is %q; the only known fault is %q", rec.Payload.Fault, faultFirstAttempt)
	}
}
