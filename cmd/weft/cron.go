package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (p *program) newCron() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cron",
		Short: "Have jobs enqueued again and again",
		Long: `A cron entry is a job that is enqueued at each time of a schedule. The server
fires it, and the keeper in any weft work or weft serve makes a job of each tick,
with the id NAME-TIME. What was missed while no keeper ran is made up for once.`,
		Example: `  weft cron add nightly report --schedule '30 2 * * *' --tz Europe/Berlin --input-ref db:all
  weft cron ls
  weft cron rm nightly`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newCronAdd(), p.newCronLs(), p.newCronRm())
	return cmd
}

func oneCron(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give one name of a cron entry, not %d", len(args))
	}
	return nil
}
