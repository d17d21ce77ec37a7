package config

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// Loader gathers the settings of one run of the program. Bind it to a command's
// flags, let the flags be parsed, then call Load.
type Loader struct {
	// LookupEnv reads the environment; nil means os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Default is what holds when nobody says otherwise.
	Default Config

	parsed Config            // what flags wrote while they were parsed
	flags  map[string]string // flag name to setting name
	given  map[string]bool   // settings that a flag, a variable or the file gave
	file   string
}

// NewLoader makes a loader whose defaults are those of Default.
func NewLoader() *Loader {
	return &Loader{Default: Default(), flags: map[string]string{}, given: map[string]bool{}}
}

// Bind defines a flag for each named setting, and --config. The flags show the
// loader's defaults as they are at that time. A name that is not in the table,
// or has no flag, is a mistake of the program and panics.
func (l *Loader) Bind(fs *pflag.FlagSet, names ...string) {
	if len(l.flags) == 0 {
		l.parsed = l.Default
		fs.StringVar(&l.file, "config", "", "YAML `FILE` with settings (env WEFT_CONFIG)")
	}
	for _, name := range names {
		row, ok := find(&l.parsed, name)
		if !ok || row.flag == "" {
			panic("config: no flag for setting " + name)
		}
		l.flags[row.flag] = name
		flag := fs.VarPF(row.value, row.flag, row.short, usage(row))
		if b, ok := row.value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			flag.NoOptDefVal = "true"
		}
	}
}

func usage(row setting) string {
	if row.env == "" {
		return row.usage
	}
	return fmt.Sprintf("%s (env %s)", row.usage, row.env)
}

// Load gives the settings: default, then file, then environment, then the flags
// that were given, and validates them. Errors name where a value came from.
func (l *Loader) Load(fs *pflag.FlagSet) (Config, error) {
	c := l.Default
	if err := l.loadFile(&c); err != nil {
		return Config{}, err
	}
	if err := l.loadEnv(&c); err != nil {
		return Config{}, err
	}
	if err := l.loadFlags(&c, fs); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

// Given reports whether anybody gave the named setting, or it is the default.
func (l *Loader) Given(name string) bool { return l.given[name] }

func (l *Loader) loadFile(c *Config) error {
	path := l.file
	if path == "" {
		path, _ = l.lookup("WEFT_CONFIG")
	}
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return readFile(data, func(name string, line int, text string) error {
		l.given[name] = true
		return set(c, name, fmt.Sprintf("%s:%d", path, line), text)
	}, path)
}

// loadEnv takes the variables that are set and not empty; an empty one is how a
// shell takes a setting back.
func (l *Loader) loadEnv(c *Config) error {
	for _, row := range settings(c) {
		text, ok := l.lookup(row.env)
		if !ok || text == "" {
			continue
		}
		l.given[row.name] = true
		if err := set(c, row.name, row.env, text); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loader) loadFlags(c *Config, fs *pflag.FlagSet) error {
	var failed error
	fs.Visit(func(f *pflag.Flag) {
		name, ok := l.flags[f.Name]
		if !ok || failed != nil {
			return
		}
		l.given[name] = true
		failed = set(c, name, "--"+f.Name, f.Value.String())
	})
	return failed
}

func (l *Loader) lookup(name string) (string, bool) {
	if l.LookupEnv != nil {
		return l.LookupEnv(name)
	}
	return os.LookupEnv(name)
}
