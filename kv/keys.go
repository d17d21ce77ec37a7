package kv

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// The kinds of key in the bucket; each is a prefix followed by one token.
const (
	jobPrefix     = "job."
	currentPrefix = "current."
	workerPrefix  = "worker."
	stagePrefix   = "stage."
	countPrefix   = "count."
	cronPrefix    = "cron."
	ratePrefix    = "rate."
	limitPrefix   = "limit."
	feedPrefix    = "outcomes."
)

// LeaderKey is the key whose holder leads as the keeper.
const LeaderKey = "leader.keeper"

// JobKey is the key of a job's record. The id must have passed job.CheckID.
func JobKey(id string) string { return jobPrefix + id }

// StageKey is the key of a stage's settings.
func StageKey(stage string) string { return stagePrefix + stage }

// CountKey is the key of what the keeper has counted of a stage.
func CountKey(stage string) string { return countPrefix + stage }

// RateKey is the key by which a stage's workers keep its rate.
func RateKey(stage string) string { return ratePrefix + stage }

// longestToken is how long an escaped text may be that is a part of a limit's key.
const longestToken = 300

// LimitKey is the key of who runs of a stage's jobs that share a value. Texts are
// escaped as in CurrentKey; an empty one is "=", a long one "=h" and its SHA-256.
func LimitKey(stage, kind string, texts ...string) string {
	key := limitPrefix + stage + "." + kind
	for _, text := range texts {
		token := escape(text)
		switch {
		case text == "":
			token = "="
		case len(token) > longestToken:
			token = fmt.Sprintf("=h%x", sha256.Sum256([]byte(text)))
		}
		key += "." + token
	}
	return key
}

// CronKey is the key of a cron entry.
func CronKey(name string) string { return cronPrefix + name }

// FeedKey is the key of a feed of outcomes.
func FeedKey(name string) string { return feedPrefix + name }

// WorkerKey is the key under which a worker makes itself known.
func WorkerKey(id string) string { return workerPrefix + id }

// CurrentKey is the key of the pointer to the current job of a caller's key. Any
// text is escaped reversibly into the characters that a KV key may have: a byte
// that is no letter, digit, _, - or / becomes = and two hexadecimal digits.
func CurrentKey(key string) string { return currentPrefix + escape(key) }

func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '/':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// KeyOf undoes CurrentKey. It reports false for a key that CurrentKey never
// makes.
func KeyOf(current string) (string, bool) {
	escaped, ok := strings.CutPrefix(current, currentPrefix)
	if !ok {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '=' {
			b.WriteByte(escaped[i])
			continue
		}
		var c byte
		if i+2 >= len(escaped) {
			return "", false
		}
		if _, err := fmt.Sscanf(escaped[i+1:i+3], "%02X", &c); err != nil {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), CurrentKey(b.String()) == current
}
