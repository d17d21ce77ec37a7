package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
)

// newConfigTopic is the help topic that lists every setting.
func newConfigTopic() *cobra.Command {
	var list strings.Builder
	for _, row := range config.Rows() {
		fmt.Fprintf(&list, "  %-20s %-16s %-25s %s\n", row.Name, row.Flag, row.Env, row.Default)
	}
	return &cobra.Command{
		Use:   "config",
		Short: "Settings by file, environment and flag",
		Long: `A flag wins over the environment, the environment over the file that --config
or WEFT_CONFIG names, the file over the default. The file is YAML; a name with a
dot is a member of a group:

  lease: 1m
  log:
    level: info

Every setting, with its flag, its variable and its default:

` + list.String(),
		Example: `  weft work hash --config weft.yaml -- sha256sum
  WEFT_CONFIG=weft.yaml weft serve`,
	}
}
