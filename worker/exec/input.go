package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/weft-fabric/weft/job"
)

// given is what a command gets beside what every attempt has.
type given struct {
	stdin io.ReadCloser
	env   []string
	file  string            // its temporary file, if it has one
	hide  *strings.Replacer // takes its link out of a text; nil without one
}

// feedFor makes what a job's command gets. Without error the caller closes stdin,
// and removes the rest when the command has ended.
func (h *Handler) feedFor(ctx context.Context, j job.Job) (_ *given, err error) {
	g := &given{}
	defer func() {
		if err != nil {
			g.remove()
		}
	}()
	if h.options.InputURL != nil {
		link, err := h.options.InputURL(ctx, j)
		if err != nil {
			return nil, err
		}
		g.link(link, j.InputRef)
	}
	if h.options.Input == nil {
		g.stdin = recordOf(j)
		return g, nil
	}
	input, err := h.options.Input(ctx, j)
	if err != nil {
		return nil, err
	}
	input = job.Bounded(input, h.options.MaxInput)
	if !h.options.InputFile {
		g.stdin = input
		return g, nil
	}
	g.stdin = recordOf(j)
	return g, g.toFile(ctx, input)
}

func recordOf(j job.Job) io.ReadCloser { return io.NopCloser(bytes.NewReader(j.AppendJSON(nil))) }

// toFile puts the whole input into a temporary file that the command may read.
func (g *given) toFile(ctx context.Context, input io.ReadCloser) error {
	defer input.Close()
	// A reader that waits for its source would not learn that ctx has ended.
	defer context.AfterFunc(ctx, func() { _ = input.Close() })()
	file, err := os.CreateTemp("", "weft-input-")
	if err != nil {
		return fmt.Errorf("file for the input: %w", err)
	}
	g.file = file.Name()
	g.env = append(g.env, "WEFT_INPUT_FILE="+g.file)
	_, err = io.Copy(file, input)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	return nil
}

// link gives the command a link, and takes note of what must not be shown of it:
// the whole, its query and the signature in that.
func (g *given) link(link, ref string) {
	if link == "" {
		return
	}
	g.env = append(g.env, "WEFT_INPUT_URL="+link)
	hide := []string{link, ref}
	if u, err := url.Parse(link); err == nil && u.RawQuery != "" {
		hide = append(hide, u.RawQuery, "[hidden]")
		for name, values := range u.Query() {
			switch name {
			case "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token":
				for _, value := range slices.DeleteFunc(values, func(v string) bool { return v == "" }) {
					hide = append(hide, value, "[hidden]", url.QueryEscape(value), "[hidden]")
				}
			}
		}
	}
	g.hide = strings.NewReplacer(hide...)
}

// shown is a text of the command without its link.
func (g *given) shown(text string) string {
	if g.hide == nil {
		return text
	}
	return g.hide.Replace(text)
}

// remove removes the temporary file.
func (g *given) remove() {
	if g.file != "" {
		_ = os.Remove(g.file) // the command may have done so
	}
}
