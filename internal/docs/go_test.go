package docs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// examples are all example_test.go of the repository, each without the indentation
// of its lines.
var examples = sync.OnceValues(func() (texts []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "example_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		texts = append(texts, flat(string(text)))
		return err
	})
	return texts, err
})

// checkGo finds a sample in an example, where it compiles and runs.
func checkGo(body string) error {
	texts, err := examples()
	if err != nil {
		return err
	}
	for _, text := range texts {
		if strings.Contains(text, flat(body)) {
			return nil
		}
	}
	return errors.New("its lines do not stand together in any example_test.go; those of the README are in internal/docs/example_test.go: change both")
}

// flat is a text whose lines begin and end without spaces.
func flat(text string) string {
	var b strings.Builder
	b.WriteString("\n")
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
