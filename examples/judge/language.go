package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// language says how a submission becomes a command.
type language struct {
	name  string
	tools []string // programs of which the first on PATH is used
	file  string   // what the source is called while it is compiled

	// resolve prints the real path of the tool when it is run by the tool, for
	// tools that are commonly started through a wrapper. The wrapper would be part
	// of every measurement, and may not work in an empty environment.
	resolve []string
	// compile and run are arguments in which {tool} and {dir} are replaced. The
	// compiler's working directory is {dir}.
	compile []string
	run     []string
	// buildEnv is added to the judge's own environment for the compiler.
	buildEnv []string
	// slack is memory the runtime maps without using it, which the kernel's limit
	// on mapped memory has to leave free.
	slack int64
	// outOfMemory is what the runtime writes when the kernel refused it memory.
	outOfMemory []string
}

var languages = []language{
	{
		name:        "c",
		tools:       []string{"gcc", "cc"},
		file:        "main.c",
		compile:     []string{"{tool}", "-O2", "-std=gnu17", "-o", "program", "main.c", "-lm"},
		run:         []string{"{dir}/program"},
		outOfMemory: []string{"Cannot allocate memory", "out of memory"},
	},
	{
		name:    "go",
		tools:   []string{"go"},
		file:    "main.go",
		compile: []string{"{tool}", "build", "-ldflags=-s -w", "-o", "program", "main.go"},
		run:     []string{"{dir}/program"},
		// A submission is one file that imports the standard library: no module, no
		// network, no cgo (whose directives reach the C compiler's command line), and
		// nothing of how the judge itself is built.
		buildEnv: []string{
			"GO111MODULE=off", "GOPATH={dir}/gopath", "GOENV=off", "GOFLAGS=", "GOWORK=off",
			"GOTOOLCHAIN=local", "GOOS=", "GOARCH=", "CGO_ENABLED=0",
		},
		// The runtime maps its arenas long before it touches them, which also is why
		// the limit cannot be one of address space.
		slack:       512 << 20,
		outOfMemory: []string{"out of memory", "cannot allocate memory"},
	},
	{
		name:        "python",
		tools:       []string{"python3"},
		file:        "main.py",
		resolve:     []string{"{tool}", "-I", "-c", "import sys; print(sys.executable)"},
		compile:     []string{"{tool}", "-I", "-m", "py_compile", "main.py"},
		run:         []string{"{tool}", "-I", "-B", "{dir}/main.py"},
		outOfMemory: []string{"MemoryError"},
	},
}

// toolchain is a language whose tool was found.
type toolchain struct {
	language
	tool string // absolute path
}

func findToolchain(name string) (toolchain, error) {
	i := slices.IndexFunc(languages, func(l language) bool { return l.name == name })
	if i < 0 {
		return toolchain{}, permanentf("payload member language is %q; the known languages are %s", name, languageNames())
	}
	tool, err := findTool(languages[i])
	return toolchain{languages[i], tool}, err
}

func languageNames() string {
	var names []string
	for _, l := range languages {
		names = append(names, l.name)
	}
	return strings.Join(names, ", ")
}

func findTool(l language) (string, error) {
	for _, name := range l.tools {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		return filepath.Abs(path)
	}
	absent := "it is not on PATH"
	if len(l.tools) > 1 {
		absent = "neither is on PATH"
	}
	return "", permanentf("language %q needs %s, and %s", l.name, strings.Join(l.tools, " or "), absent)
}

// expand fills in a command's arguments or an environment.
func (t toolchain) expand(words []string, dir string) []string {
	replace := strings.NewReplacer("{tool}", t.tool, "{dir}", dir)
	var expanded []string
	for _, word := range words {
		expanded = append(expanded, replace.Replace(word))
	}
	return expanded
}

// compilerEnv is the judge's environment, in which compilers find their caches
// and helpers, without what concerns the job. Temporary files go into dir,
// where they are removed even if the compiler is killed.
func (t toolchain) compilerEnv(dir string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "WEFT_")
	})
	env = append(env, "LC_ALL=C", "TMPDIR="+dir)
	if _, err := os.UserCacheDir(); err != nil && os.Getenv("GOCACHE") == "" {
		// The go command refuses to work without a cache. One in a directory that
		// everyone may write to could be prepared by someone else, hence a new one,
		// at the price of some seconds.
		env = append(env, "GOCACHE="+filepath.Join(dir, "gocache"))
	}
	return append(env, t.expand(t.buildEnv, dir)...)
}

// exhausted tells whether a runtime's last words are that memory ran out.
func (t toolchain) exhausted(lastWords string) bool {
	return slices.ContainsFunc(t.outOfMemory, func(sign string) bool {
		return strings.Contains(lastWords, sign)
	})
}

// resolved returns the toolchain with its wrapper, if any, out of the way.
func (t toolchain) resolved(output string) (toolchain, error) {
	path := strings.TrimSpace(output)
	if !filepath.IsAbs(path) {
		return t, fmt.Errorf("%s did not say where its interpreter is, but %q", t.tool, cut(path, maxDetailBytes))
	}
	t.tool = path
	return t, nil
}
