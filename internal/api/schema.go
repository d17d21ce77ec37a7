package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// schemaText has each verb's description and the JSON schemas of its request and
// its answer. They are written by hand: records and specs have a codec of their
// own, of which a generator sees nothing. The tests hold every request and answer
// that they make against them.
//
//go:embed schema.json
var schemaText []byte

// schemas is the form of schema.json.
type schemas struct {
	Defs  map[string]json.RawMessage `json:"$defs"`
	Verbs map[string]verbSchema      `json:"verbs"`
}

type verbSchema struct {
	Description string          `json:"description"`
	Request     json.RawMessage `json:"request"`
	Response    json.RawMessage `json:"response"`
}

// documented is schema.json, which a test reads before anybody else does.
var documented = func() (s schemas) {
	if err := json.Unmarshal(schemaText, &s); err != nil {
		panic("internal/api: schema.json: " + err.Error())
	}
	return s
}()

// metadata describes an endpoint to whoever asks the service protocol.
func metadata(verb string) map[string]string {
	v := documented.Verbs[verb]
	return map[string]string{
		"description":     v.Description,
		"request_schema":  documented.whole(v.Request),
		"response_schema": documented.whole(v.Response),
	}
}

// whole makes a schema stand for itself: with the definitions that it refers to.
func (s schemas) whole(schema json.RawMessage) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		panic("internal/api: schema.json: " + err.Error())
	}
	needed := map[string]json.RawMessage{}
	s.need(string(schema), needed)
	if len(needed) > 0 {
		members["$defs"], _ = json.Marshal(needed) // it was JSON before
	}
	text, _ := json.Marshal(members)
	return string(text)
}

// need collects the definitions that a schema refers to, and those that these do.
func (s schemas) need(schema string, needed map[string]json.RawMessage) {
	for name, def := range s.Defs {
		if _, has := needed[name]; !has && strings.Contains(schema, fmt.Sprintf("%q", "#/$defs/"+name)) {
			needed[name] = def
			s.need(string(def), needed)
		}
	}
}
