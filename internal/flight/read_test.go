package flight

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestAnswersThatAreNoSequence(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"seq":0}`, `{"seq":"1"}`, `{"seq":-1}`, `{"seq":1`, `[]`, `null`, `{"error":{"code":400,"err_code":10071}}`,
		`{"error":{"code":400},"seq":5}`,
	} {
		if sequence, err := read(&nats.Msg{Data: []byte(text)}); err == nil {
			t.Errorf("%s is read as %d", text, sequence)
		}
	}
}

// FuzzRead holds the quick way of reading an answer against encoding/json.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"stream":"KV_weft","seq":12}`, `{"stream":"S","domain":"hub","seq":1,"duplicate":true}`, `{"seq":18446744073709551615}`,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}`,
		`{"stream":"\"seq\":7","seq":8}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var a answer
		if json.Unmarshal([]byte(text), &a) != nil || a.Error != nil || a.Sequence == 0 {
			return // the quick way is for what a server writes, which is JSON
		}
		if sequence, ok := readPlain([]byte(text)); ok && sequence != a.Sequence && servers(text) {
			t.Errorf("%s is read as %d, not as %d", text, sequence, a.Sequence)
		}
	})
}

// servers tells whether a text has the members of an answer once each, without
// blanks, as a server writes it.
func servers(text string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil {
		return false
	}
	var a struct {
		Stream    string `json:"stream"`
		Domain    string `json:"domain,omitempty"`
		Sequence  uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate,omitempty"`
	}
	if json.Unmarshal([]byte(text), &a) != nil {
		return false
	}
	same, err := json.Marshal(a)
	return err == nil && string(same) == text
}
