package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weft-fabric/weft/job"
)

// duration is a Go duration such as 1m30s.
type duration time.Duration

func (d *duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return errNoDuration(raw)
	}
	read, err := time.ParseDuration(text)
	if err != nil {
		return errNoDuration(raw)
	}
	*d = duration(read)
	return nil
}

func errNoDuration(raw []byte) error {
	return fmt.Errorf(`%s is not a duration such as "1m30s"`, cut(string(raw)))
}

// decode reads the JSON object of a request into a struct, by the names in its
// tags. It refuses what is not such an object, a member that the struct does not
// have, and one of another type, each by name.
func decode(what string, data []byte, into any) error {
	fields := fieldsOf(reflect.ValueOf(into).Elem())
	names := slices.Sorted(maps.Keys(fields))
	members, err := object(data)
	if err != nil {
		return job.Invalid("%s %s; send a JSON object of %s", what, err, strings.Join(names, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, known := fields[name]
		if !known {
			return job.Invalid("%s has no member %s; it has %s", what, cut(quote(name)), strings.Join(names, ", "))
		}
		if err := set(name, members[name], field); err != nil {
			return err
		}
	}
	return nil
}

// set reads one member. A null is the same as a member that is not there.
func set(name string, raw json.RawMessage, field reflect.Value) error {
	if string(raw) == "null" {
		return nil
	}
	if _, isToken := field.Interface().(job.Token); isToken {
		return decode(name, raw, field.Addr().Interface())
	}
	err := json.Unmarshal(raw, field.Addr().Interface())
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return job.Invalid("%s: a JSON %s is not %s", name, cut(wrong.Value), kindName(wrong.Type.Kind()))
	}
	return job.Invalid("%s: %s", name, err)
}

// kindName says what JSON must hold for a Go value.
func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array of strings"
	case reflect.Map:
		return "an object of strings"
	case reflect.Struct:
		return "a time such as 2006-01-02T15:04:05Z"
	}
	return "a whole number in range"
}

// fieldsOf gives the fields of a struct by their names in JSON.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = v.Field(i)
	}
	return fields
}

// object takes a JSON object apart and leaves its members as they stand.
func object(data []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("is empty")
	}
	var members map[string]json.RawMessage
	err := json.Unmarshal(data, &members)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong || err == nil && members == nil {
		return nil, errors.New("is no JSON object")
	}
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	return members, nil
}

func quote(text string) string { return fmt.Sprintf("%q", text) }

// cut shortens what a caller sent for use in a message.
func cut(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
