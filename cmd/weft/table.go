package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
)

// pageRows is how many rows a table gathers to find the widths of its columns.
// The widths only grow from page to page, so a long table streams.
const pageRows = 200

// table prints rows of texts in columns.
type table struct {
	out    io.Writer
	color  bool
	widths []int
	rows   [][]string
}

func newTable(out io.Writer, columns ...string) *table {
	t := &table{out: out, color: colorful(out), widths: make([]int, len(columns))}
	t.rows = append(t.rows, columns)
	return t
}

// colorful reports whether colours are for a person who wants them.
func colorful(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// row adds a row of as many cells as there are columns.
func (t *table) row(cells ...string) error {
	t.rows = append(t.rows, cells)
	if len(t.rows) < pageRows {
		return nil
	}
	return t.flush()
}

// flush prints what has gathered.
func (t *table) flush() error {
	for _, row := range t.rows {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], text.StringWidthWithoutEscSequences(cell))
		}
	}
	var page strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(t.paint(text.Pad(cell, t.widths[i]+2, ' ')))
		}
		page.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	t.rows = nil
	_, err := io.WriteString(t.out, page.String())
	return err
}

// stateColors are how states look on a terminal.
var stateColors = map[string]text.Color{
	"succeeded": text.FgGreen, "failed": text.FgRed, "cancelled": text.FgYellow, "leased": text.FgCyan,
}

func (t *table) paint(cell string) string {
	color, ok := stateColors[strings.TrimSpace(cell)]
	if !ok || !t.color {
		return cell
	}
	state := strings.TrimSpace(cell)
	return color.EscapeSeq() + state + text.Reset.EscapeSeq() + cell[len(state):]
}

// printableRune takes out what does not print, and gives a blank for a tab.
func printableRune(r rune) rune {
	if r == '\t' {
		return ' '
	}
	if !unicode.IsPrint(r) {
		return -1
	}
	return r
}

// oneLine is a whole text in one line, without what could move a cursor.
func oneLine(s string) string {
	lines := strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.Map(printableRune, line))
	}
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), "; ")
}

// previewWidth is how much of an output or a reason a table shows.
const previewWidth = 60

// preview is the first line of a text, cut, without what could move a cursor.
func preview(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.Map(printableRune, strings.ToValidUTF8(line, "\uFFFD"))
	if runes := []rune(line); len(runes) > previewWidth {
		line, more = string(runes[:previewWidth]), true
	}
	if more {
		line += "..."
	}
	return line
}
