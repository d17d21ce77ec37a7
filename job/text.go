package job

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quotedLength is how much of a bad input an error repeats, in bytes.
const quotedLength = 80

// quote shows a bad input inside an error: quoted, on one line, and cut.
func quote(s string) string {
	if len(s) > quotedLength {
		return strconv.Quote(cutAt(s, quotedLength)) + "..."
	}
	return strconv.Quote(s)
}

// CutReason shortens a reason to MaxReasonSize bytes at a rune's border, keeps
// its end, where programs say what went wrong, and makes it valid UTF-8 so that
// it can live in JSON.
func CutReason(reason string) string {
	return cutTo(strings.ToValidUTF8(reason, "\uFFFD"), MaxReasonSize)
}

// cutTo shortens s to at most n bytes, with a mark and the end of s.
func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "... "
	tail := s[len(s)-(n-len(mark)):]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return mark + tail
}

// cutAt shortens s to at most n bytes without splitting a rune.
func cutAt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
