package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagRules say what a flag of a type takes.
var flagRules = map[string]string{
	"int":         "a whole number",
	"int64":       "a whole number",
	"uint64":      "a whole number from 0 on",
	"duration":    "a duration with its unit, such as 30s or 1h30m",
	"bool":        "true or false",
	"stringToInt": "NAME=NUMBER",
}

// plainFlagError says what a flag takes, where the package that reads it says how the
// reading failed.
func plainFlagError(_ *cobra.Command, err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	if rule := flagRules[flag.Value.Type()]; rule != "" {
		return fmt.Errorf("--%s %.80q is not %s", flag.Name, invalid.GetValue(), rule)
	}
	return fmt.Errorf("--%s %.80q: %w", flag.Name, invalid.GetValue(), errors.Unwrap(invalid))
}

// exclusive refuses one flag together with another, which the shell's completion is
// told too. It comes after the command's own PreRunE is set, and is asked before that.
func exclusive(cmd *cobra.Command, one, other string) {
	cmd.MarkFlagsMutuallyExclusive(one, other)
	beforehand(cmd, func(given func(string) bool) error {
		if given(one) && given(other) {
			return fmt.Errorf("give --%s or --%s, not both", one, other)
		}
		return nil
	})
}

// oneOf refuses none of some flags, as exclusive does.
func oneOf(cmd *cobra.Command, names ...string) {
	cmd.MarkFlagsOneRequired(names...)
	beforehand(cmd, func(given func(string) bool) error {
		if slices.ContainsFunc(names, given) {
			return nil
		}
		last := len(names) - 1
		return fmt.Errorf("give --%s or --%s", strings.Join(names[:last], ", --"), names[last])
	})
}

// beforehand puts a check of the flags that are given before a command's PreRunE.
func beforehand(cmd *cobra.Command, check func(given func(string) bool) error) {
	then := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd.Flags().Changed); err != nil || then == nil {
			return err
		}
		return then(cmd, args)
	}
}
