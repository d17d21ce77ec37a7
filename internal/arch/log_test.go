package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// attribute is the form of a name in the log, and misnamed are words for what has
// another name there.
var (
	attribute = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	misnamed  = map[string]string{
		"id": "job", "job_id": "job", "queue": "stage", "attempt_number": "attempt", "attempts": "attempt", "try_number": "try",
		"token": "fence", "worker_id": "worker", "runner": "worker", "holder": "worker", "err": "error",
	}
	// ofAnAttempt say which attempt a line is about; the worker is the logger's
	// own where it is a runner's.
	ofAnAttempt = []string{"job", "stage", "attempt", "fence"}
)

// TestTheLogHasOneNameForEachThing looks at every call of a logger.
func TestTheLogHasOneNameForEachThing(t *testing.T) {
	seen := map[string]int{}
	for _, p := range list(t, "./fabric", "./worker/...", "./stream", "./kv", "./internal/app", "./internal/api", "./internal/metrics", "./cmd/weft") {
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isLog(call) {
					return true
				}
				at := files.Position(call.Pos()).String()
				keys := keysOf(t, at, call)
				for _, key := range keys {
					seen[key]++
					if better := misnamed[key]; better != "" || !attribute.MatchString(key) {
						t.Errorf("%s: attribute %q is called %q everywhere else", at, key, better)
					}
				}
				if slices.Contains(keys, "attempt") || slices.Contains(keys, "fence") {
					for _, key := range ofAnAttempt {
						if !slices.Contains(keys, key) {
							t.Errorf("%s: a line about an attempt has no %q", at, key)
						}
					}
				}
				return true
			})
		}
	}
	for _, key := range append(ofAnAttempt, "worker", "error") {
		if seen[key] == 0 {
			t.Errorf("no line has %q; the test does not see the log: %v", key, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// isLog reports whether a call is one of a logger with attributes.
func isLog(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error", "With":
		of := called(method.X)
		return strings.EqualFold(of, "log") || strings.EqualFold(of, "logger") || of == "base"
	case "Group":
		return called(method.X) == "slog"
	}
	return false
}

// called is the last name of an expression.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return called(e.Fun)
	}
	return ""
}

// keysOf are the names in a call's pairs. What is no literal is an attribute of its
// own, such as those of an attempt.
func keysOf(t *testing.T, at string, call *ast.CallExpr) (keys []string) {
	t.Helper()
	args := call.Args
	if called(call.Fun) != "With" && len(args) > 0 { // the message, or the group
		args = args[1:]
	}
	for len(args) > 0 {
		literal, ok := args[0].(*ast.BasicLit)
		if !ok {
			args = args[1:]
			continue
		}
		key, err := strconv.Unquote(literal.Value)
		if err != nil || len(args) < 2 {
			t.Errorf("%s: the attribute %s has no value", at, literal.Value)
			return keys
		}
		keys, args = append(keys, key), args[2:]
	}
	return keys
}
