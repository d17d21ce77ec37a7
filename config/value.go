package config

import (
	"errors"
	"strconv"
	"time"
)

// value is a pflag.Value that reads its text with parse.
type value[T any] struct {
	at    *T
	kind  string
	parse func(string) (T, error)
	show  func(T) string
}

// Set replaces the value, or leaves it when the text is not of its form.
func (v value[T]) Set(text string) error {
	read, err := v.parse(text)
	if err == nil {
		*v.at = read
	}
	return err
}

func (v value[T]) String() string {
	if v.at == nil { // pflag asks a zero value for its default
		return ""
	}
	return v.show(*v.at)
}

// Type names the form in help texts.
func (v value[T]) Type() string { return v.kind }

func text(at *string) value[string] {
	same := func(s string) string { return s }
	return value[string]{at, "string", func(s string) (string, error) { return s, nil }, same}
}

// flagBool is a value that a flag may give without an argument.
type flagBool struct{ value[bool] }

// IsBoolFlag lets a bare flag mean true.
func (flagBool) IsBoolFlag() bool { return true }

func boolean(at *bool) flagBool {
	parse := func(s string) (bool, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return false, errors.New("give true or false")
		}
		return b, nil
	}
	return flagBool{value[bool]{at, "bool", parse, strconv.FormatBool}}
}

func integer[T int | int64](at *T) value[T] {
	parse := func(s string) (T, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || int64(T(n)) != n {
			return 0, errors.New("give a whole number")
		}
		return T(n), nil
	}
	return value[T]{at, "int", parse, func(n T) string { return strconv.FormatInt(int64(n), 10) }}
}

func number(at *float64) value[float64] {
	parse := func(s string) (float64, error) {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, errors.New("give a number")
		}
		return n, nil
	}
	return value[float64]{at, "number", parse, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }}
}

func duration(at *time.Duration) value[time.Duration] {
	return value[time.Duration]{at, "duration", parseDuration, time.Duration.String}
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("give a duration with its unit, such as 30s or 1h30m")
	}
	return d, nil
}

// Set reads a duration or the word always.
func (s *SyncInterval) Set(text string) error {
	if text == "always" {
		*s = SyncInterval{Always: true}
		return nil
	}
	every, err := parseDuration(text)
	if err != nil {
		return errors.New("give a duration such as 10s, or always")
	}
	*s = SyncInterval{Every: every}
	return nil
}

func (s SyncInterval) String() string {
	switch {
	case s.Always:
		return "always"
	case s.Every == 0:
		return ""
	}
	return s.Every.String()
}

// Type names the form, which is not that of other durations.
func (SyncInterval) Type() string { return "interval" }
