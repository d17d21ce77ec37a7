package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker in a release; otherwise the build's own record of
// the module's version is used.
var version string

func (p *program) newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  weft version --json",
		Args:    cobra.NoArgs,
	}
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(*cobra.Command, []string) error {
		p.began = true
		if asJSON {
			return json.NewEncoder(p.Out).Encode(map[string]string{"version": programVersion(), "go": runtime.Version()})
		}
		_, err := fmt.Fprintf(p.Out, "weft %s (%s)\n", programVersion(), runtime.Version())
		return err
	}
	return cmd
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func jsonFlag(cmd *cobra.Command, at *bool) {
	cmd.Flags().BoolVar(at, "json", false, "print JSON, one object a line")
}
