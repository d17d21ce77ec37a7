package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// object is a JSON object being taken apart: each known member is removed as it
// is read, what remains is unknown. The first error is kept.
//
// The common case is read without encoding/json: the object is cut into members by
// their quotes and brackets, and plain texts and whole numbers are taken as they
// stand. Everything else, and every error, is encoding/json's.
type object struct {
	members []part
	at      int // where the next member is looked for first: writers keep one order
	err     error
}

// part is a member of an object that is being taken apart.
type part struct {
	member
	taken bool
}

var errNotObject = errors.New("not a JSON object")

func parseObject(data []byte) (*object, error) {
	members, ok := cut(data)
	if !ok {
		return parseSlowly(data)
	}
	return &object{members: members}, nil
}

// parseSlowly finds out what is wrong with a text that could not be cut.
func parseSlowly(data []byte) (*object, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, errNotObject
		}
		return nil, err
	}
	if members == nil { // the text was null
		return nil, errNotObject
	}
	o := &object{}
	for name, raw := range members {
		o.members = append(o.members, part{member: member{name, raw}})
	}
	return o, nil
}

// find takes a member out; nil if it is not there, or no more.
func (o *object) find(name string) json.RawMessage {
	for i := range o.members {
		at := (o.at + i) % len(o.members)
		if p := &o.members[at]; p.name == name && !p.taken {
			p.taken, o.at = true, at+1
			return p.raw
		}
	}
	return nil
}

// take reads one member into dst, if it is there.
func (o *object) take(name string, dst any) {
	raw := o.find(name)
	if raw == nil || o.err != nil || takePlain(raw, dst) {
		return
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		o.err = fmt.Errorf("member %s: %w", name, plain(err))
	}
}

// takePlain reads texts and whole numbers that need no decoding.
func takePlain(raw json.RawMessage, dst any) bool {
	switch dst := dst.(type) {
	case *string:
		text, ok := plainText(raw)
		*dst = cmp.Or(text, *dst)
		return ok
	case **string:
		text, ok := plainText(raw)
		if ok {
			*dst = &text
		}
		return ok
	case *State:
		text, ok := plainText(raw)
		*dst = cmp.Or(State(text), *dst)
		return ok
	case *int64:
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || !canonicalInt(raw) {
			return false
		}
		*dst = n
		return true
	}
	return false
}

// canonicalInt excludes what ParseInt takes and JSON does not: signs and zeros in
// front.
func canonicalInt(raw []byte) bool {
	if raw[0] == '-' {
		raw = raw[1:]
	}
	return raw[0] >= '1' && raw[0] <= '9' || len(raw) == 1 && raw[0] == '0'
}

// plainText is the text of a JSON string of printable ASCII without escapes.
func plainText(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	text := raw[1 : len(raw)-1]
	if !isPlain(text) {
		return "", false
	}
	return string(text), true
}

// isPlain reports whether a text is printable ASCII that needs no escapes.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// takeRaw keeps one member's bytes as they are; null counts as absent.
func (o *object) takeRaw(name string, dst *json.RawMessage) {
	raw := o.find(name)
	if raw == nil || bytes.Equal(raw, []byte("null")) {
		return
	}
	o.check(name, raw)
	*dst = bytes.Clone(raw)
}

// check refuses a value that is kept as it is and is no JSON.
func (o *object) check(name string, raw json.RawMessage) {
	if o.err == nil && !json.Valid(raw) {
		var value any
		o.err = fmt.Errorf("member %s: %w", cutAt(name, quotedLength), json.Unmarshal(raw, &value))
	}
}

// rest gives the members nobody took, sorted by name so that two programs write
// the same bytes.
func (o *object) rest() []member {
	var rest []member
	for _, p := range o.members {
		if !p.taken {
			o.check(p.name, p.raw)
			rest = append(rest, member{p.name, bytes.Clone(p.raw)})
		}
	}
	slices.SortFunc(rest, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return rest
}

// manyMembers is how many members cut handles: records have some twenty, and its
// search for doubles takes the square of their number.
const manyMembers = 64

// cut splits an object's text into its members. It looks at quotes and brackets
// alone; what stands between them is checked when the member is taken. It gives
// up, with false, on whatever encoding/json has to judge: a broken text, a name
// with escapes, a name that comes twice, very many names.
func cut(data []byte) ([]part, bool) {
	c := cutter{data: data}
	c.space()
	if !c.skip('{') {
		return nil, false
	}
	members := make([]part, 0, 24)
	c.space()
	for first := true; !c.skip('}'); first = false {
		if !first && !c.skip(',') {
			return nil, false
		}
		m, ok := c.member()
		if !ok || len(members) == manyMembers || slices.ContainsFunc(members, func(other part) bool { return other.name == m.name }) {
			return nil, false
		}
		members = append(members, part{member: m})
		c.space()
	}
	c.space()
	return members, c.at == len(data)
}

// cutter walks through a text.
type cutter struct {
	data []byte
	at   int
}

func (c *cutter) space() {
	for c.at < len(c.data) && (c.data[c.at] == ' ' || c.data[c.at] == '\n' || c.data[c.at] == '\t' || c.data[c.at] == '\r') {
		c.at++
	}
}

func (c *cutter) skip(b byte) bool {
	if c.at < len(c.data) && c.data[c.at] == b {
		c.at++
		return true
	}
	return false
}

// member walks over one name and its value.
func (c *cutter) member() (member, bool) {
	name, raw, ok := c.pair()
	if known, there := knownNames[string(name)]; there && ok { // the same text, and no copy
		return member{name: known, raw: raw}, true
	}
	return member{name: string(name), raw: raw}, ok
}

// knownNames are the names that a record or a spec has, each under itself.
var knownNames = func() map[string]string {
	names := map[string]string{}
	for _, list := range [][]string{specMembers, recordMembers} {
		for _, name := range list {
			names[name] = name
		}
	}
	return names
}()

// pair is member without a copy of the name.
func (c *cutter) pair() (name, raw []byte, ok bool) {
	c.space()
	from := c.at
	if !c.text() {
		return nil, nil, false
	}
	name = c.data[from+1 : c.at-1]
	c.space()
	if !isPlain(name) || !c.skip(':') {
		return nil, nil, false
	}
	c.space()
	from = c.at
	if !c.value() || c.at == from {
		return nil, nil, false
	}
	return name, c.data[from:c.at:c.at], true
}

// text walks over a string.
func (c *cutter) text() bool {
	if !c.skip('"') {
		return false
	}
	for ; c.at < len(c.data); c.at++ {
		switch c.data[c.at] {
		case '\\':
			c.at++
		case '"':
			c.at++
			return true
		}
	}
	return false
}

// value walks over a value: to the end of a string, to the bracket that closes
// the first, or to where a number or a word ends.
func (c *cutter) value() bool {
	depth := 0
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case '"':
			if !c.text() {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return true
			}
			if depth--; depth == 0 {
				c.at++
				return true
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return true
			}
		}
		c.at++
	}
	return false
}
