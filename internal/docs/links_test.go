package docs_test

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-fabric/weft/internal/docs"
)

func TestEachLinkLeadsSomewhere(t *testing.T) {
	anchors := map[string][]string{}
	all := pages(t)
	for _, page := range all {
		anchors[page.Name] = page.Anchors
	}
	for _, page := range all {
		for _, link := range page.Links {
			if err := follow(anchors, page.Name, link.Text); err != nil {
				t.Errorf("%s: the link %q: %v", link.At(), link.Text, err)
			}
		}
	}
}

// follow goes where a link of a page leads, inside the repository.
func follow(anchors map[string][]string, from, link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Host != "" {
		return err
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
		return err
	}
	if u.Fragment != "" && !slices.Contains(anchors[to], u.Fragment) {
		return fmt.Errorf("%s has no heading for it; it has %s", to, strings.Join(anchors[to], " "))
	}
	return nil
}

// filePath is inline code that names a file of the repository.
var filePath = regexp.MustCompile(`^[a-z]+(/[\w.-]+)+\.(go|md|jsonl?|mjs|yaml)$`)

func TestEachFileThatIsNamedIsThere(t *testing.T) {
	for _, page := range pages(t) {
		for _, span := range page.Spans {
			if !filePath.MatchString(span.Text) {
				continue
			}
			_, inRoot := os.Stat(filepath.Join(root, span.Text))
			_, beside := os.Stat(filepath.Join(root, filepath.Dir(page.Name), span.Text))
			if inRoot != nil && beside != nil {
				t.Errorf("%s: `%s` is no file of the repository", span.At(), span.Text)
			}
		}
	}
}

func TestPagesAreTakenApart(t *testing.T) {
	page, err := docs.Parse("p.md", "# A `b`, c\n\n## Two\nsee [x](y.md#z) and `weft\njob ls`\n\n```sh\na\n```\n```json\n{}\n```\n\n<!-- not run: too far away -->\n```\nb\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []docs.Block{
		{Page: "p.md", Section: "Two", Line: 7, Lang: "sh", Body: "a\n"},
		{Page: "p.md", Section: "Two", Line: 10, Lang: "json", Body: "{}\n", Follows: true},
		{Page: "p.md", Section: "Two", Line: 15, Body: "b\n", Mark: "not run", Why: "too far away"},
	}
	if !slices.Equal(page.Blocks, want) {
		t.Errorf("blocks %+v, want %+v", page.Blocks, want)
	}
	if want := []string{"a-b-c", "two"}; !slices.Equal(page.Anchors, want) {
		t.Errorf("anchors %q, want %q", page.Anchors, want)
	}
	if want := []docs.Span{{Page: "p.md", Line: 1, Text: "b"}, {Page: "p.md", Line: 4, Text: "weft job ls"}}; !slices.Equal(page.Spans, want) {
		t.Errorf("code %+v, want %+v", page.Spans, want)
	}
	if want := []docs.Span{{Page: "p.md", Line: 4, Text: "y.md#z"}}; !slices.Equal(page.Links, want) {
		t.Errorf("links %+v, want %+v", page.Links, want)
	}
	for name, text := range map[string]string{"no end": "```sh\na\n", "indented": "a:\n\n    b\n"} {
		if _, err := docs.Parse("p.md", text); err == nil || !strings.HasPrefix(err.Error(), "p.md:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
