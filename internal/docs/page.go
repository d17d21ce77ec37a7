package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is one Markdown file.
type Page struct {
	// Name is its path in the repository, with slashes.
	Name   string
	Blocks []Block
	Spans  []Span
	Links  []Span
	// Anchors are what a link can name behind "#".
	Anchors []string
}

// Block is a fenced block.
type Block struct {
	Page, Section string
	// Line is that of its opening fence, from 1.
	Line       int
	Lang, Body string
	// Mark and Why are those of the comment right before it: "not run", "file" or
	// "command", and what follows the colon.
	Mark, Why string
	// Follows says that only blank lines are between it and the block before it.
	Follows bool
}

// Span is a piece of a line of prose: inline code, or the target of a link.
type Span struct {
	Page string
	Line int
	Text string
}

// At names a place in a page as compilers do.
func (b Block) At() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// At names a place in a page as compilers do.
func (s Span) At() string { return fmt.Sprintf("%s:%d", s.Page, s.Line) }

// Pages reads README.md and the pages of docs, examples and deploy below root. The error has all
// that Parse refuses.
func Pages(root string) ([]Page, error) {
	names := []string{"README.md"}
	for _, dir := range []string{"docs", "examples", "deploy"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(name string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			if err == nil && path.Ext(name) == ".md" {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	pages, wrong := make([]Page, 0, len(names)), error(nil)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		p, err := Parse(name, string(text))
		pages, wrong = append(pages, p), errors.Join(wrong, err)
	}
	return pages, wrong
}

var (
	fence    = regexp.MustCompile("^( *)```+ *([A-Za-z0-9]*)")
	mark     = regexp.MustCompile(`^<!-- ([a-z ]+): *(.*?) *-->$`)
	heading  = regexp.MustCompile(`^#+ +(.*)`)
	listed   = regexp.MustCompile(`^( |[-*] |\d+\. )`)
	code     = regexp.MustCompile("(?s)`([^`]+)`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// reader goes through a page from line to line.
type reader struct {
	page    Page
	prose   []string // the lines, those of blocks empty
	section string
	open    *Block // the block whose end has not come
	indent  string // that of its fence
	last    string // the last line that is not blank
	closed  bool   // nothing but blank lines since a block
}

// Parse takes a page apart. It refuses what GitHub would show as a sample but the
// tests would not see.
func Parse(name, text string) (Page, error) {
	r := reader{page: Page{Name: name}}
	blank := true
	for i, line := range strings.Split(text, "\n") {
		if r.open == nil && blank && strings.HasPrefix(line, "    ") && !listed.MatchString(r.last) {
			return Page{}, fmt.Errorf("%s:%d: an indented sample is not run by the tests; put it between ```sh and ```", name, i+1)
		}
		blank = strings.TrimSpace(line) == ""
		r.prose = append(r.prose, r.line(i+1, line))
		if !blank {
			r.last = line
		}
	}
	if r.open != nil {
		return Page{}, fmt.Errorf("%s: the block has no end; close it with ```", r.open.At())
	}
	r.inline()
	return r.page, nil
}

// line takes one line in, and gives what of it is prose.
func (r *reader) line(number int, line string) (prose string) {
	m := fence.FindStringSubmatch(line)
	switch {
	case m != nil && r.open != nil:
		r.page.Blocks = append(r.page.Blocks, *r.open)
		r.open, r.closed = nil, true
	case m != nil:
		r.begin(number, m[1], m[2])
	case r.open != nil:
		r.open.Body += strings.TrimPrefix(line, r.indent) + "\n"
	default:
		if h := heading.FindStringSubmatch(line); h != nil {
			r.head(line, h[1])
		}
		r.closed = r.closed && strings.TrimSpace(line) == ""
		return line
	}
	return ""
}

func (r *reader) begin(number int, indent, lang string) {
	r.open = &Block{Page: r.page.Name, Section: r.section, Line: number, Lang: lang, Follows: r.closed}
	r.indent = indent
	if m := mark.FindStringSubmatch(strings.TrimSpace(r.last)); m != nil {
		r.open.Mark, r.open.Why = m[1], m[2]
	}
}

// head notes a heading's anchor, as GitHub makes it.
func (r *reader) head(line, title string) {
	if strings.HasPrefix(line, "## ") {
		r.section = title
	}
	anchor := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
	again := anchor
	for n := 1; slices.Contains(r.page.Anchors, again); n++ {
		again = fmt.Sprintf("%s-%d", anchor, n)
	}
	r.page.Anchors = append(r.page.Anchors, again)
}

// inline finds the code and the links in the prose, paragraph by paragraph, since a
// piece of code may go on in the next line.
func (r *reader) inline() {
	prose := strings.Join(r.prose, "\n")
	for at := 0; at < len(prose); {
		end := strings.Index(prose[at:], "\n\n")
		if end < 0 {
			end = len(prose) - at
		}
		paragraph, line := prose[at:at+end], 1+strings.Count(prose[:at], "\n")
		find := func(in string, what *regexp.Regexp) (found []Span) {
			for _, m := range what.FindAllStringSubmatchIndex(in, -1) {
				text := strings.Join(strings.Fields(in[m[2]:m[3]]), " ")
				found = append(found, Span{r.page.Name, line + strings.Count(in[:m[2]], "\n"), text})
			}
			return found
		}
		r.page.Spans = append(r.page.Spans, find(paragraph, code)...)
		r.page.Links = append(r.page.Links, find(paragraph, link)...)
		at += end + 2
	}
}
