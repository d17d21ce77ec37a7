package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

// What a shell completes is told by the word that stands for it, in a command's
// Use line or in the usage of a flag: STAGE is a stage wherever it stands.

// completeWait bounds a look at the server: somebody waits for his shell.
const completeWait = 2 * time.Second

// completeMost is how many jobs a shell is given to choose from.
const completeMost = 100

// asked are words of which the server knows what they may be.
var asked = map[string]func(ctx context.Context, f *fabric.Fabric, begun string) []string{
	"STAGE": stagesOf, "ID": jobsOf, "ID...": jobsOf, "[ID...]": jobsOf,
}

// known are words that may be one of few.
var known = map[string][]string{
	"STATE":  namesOf(job.States()),
	"ROLE":   namesOf(roles.All),
	"LEVEL":  {"debug", "info", "warn", "error"},
	"FORMAT": {"text", "json"},
	"WHAT":   {stdinRecord, stdinInput},
}

func namesOf[T ~string](values []T) []string {
	var names []string
	for _, v := range values {
		names = append(names, string(v))
	}
	return names
}

// completes lets a shell complete the arguments and the flags of a command that
// takes its settings from the loader.
func (p *program) completes(cmd *cobra.Command, loader *config.Loader) {
	words := strings.Fields(cmd.Use)[1:]
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		// Cobra adds a "--" of its own at the end.
		if cmd.ArgsLenAtDash() < len(args) { // the command to run is the shell's
			return nil, cobra.ShellCompDirectiveDefault
		}
		at := len(args)
		if last := len(words) - 1; at > last && last >= 0 && strings.Contains(words[last], "...") {
			at = last
		}
		if at >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.complete(cmd, loader, words[at], args, begun), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		word, _ := pflag.UnquoteUsage(flag)
		if asked[word] == nil && known[word] == nil {
			return
		}
		// It fails for a flag that is not there, or is registered already.
		_ = cmd.RegisterFlagCompletionFunc(flag.Name, func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return p.complete(cmd, loader, word, args, begun), cobra.ShellCompDirectiveNoFileComp
		})
	})
}

// complete gives what a word may be. Whatever goes wrong, there is nothing to
// choose from, and nothing is said.
func (p *program) complete(cmd *cobra.Command, loader *config.Loader, word string, given []string, begun string) []string {
	ask := asked[word]
	if ask == nil || cmd.Flags().Lookup("server") == nil {
		return known[word]
	}
	c, err := loader.Load(cmd.Flags())
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
	defer cancel()
	var found []string
	_ = look(ctx, c, func(f *fabric.Fabric) { found = ask(ctx, f, begun) })
	return slices.DeleteFunc(found, func(choice string) bool {
		name, _, _ := strings.Cut(choice, "\t")
		return slices.Contains(given, name) || !strings.HasPrefix(name, begun)
	})
}

// look opens a fabric that there is. It makes none, since nobody has asked for one.
func look(ctx context.Context, c config.Config, do func(*fabric.Fabric)) error {
	quiet := slog.New(slog.DiscardHandler)
	nc, err := app.Connect(c.Connection, c.Namespace, "weft completion", quiet)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, end := app.HearRefusals(nc, c, quiet).Bound(ctx)
	defer end()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.KeyValue(ctx, c.Namespace); err != nil {
		return err
	}
	f, err := fabric.Open(ctx, nc, app.FabricOptions(c, quiet))
	if err != nil {
		return err
	}
	defer f.Close()
	do(f)
	return nil
}

func stagesOf(ctx context.Context, f *fabric.Fabric, _ string) (names []string) {
	all, _ := f.Stages(ctx) // what has been found when the time is over will do
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// jobsOf gives jobs by their ids, each with its stage and state beside it.
func jobsOf(ctx context.Context, f *fabric.Fabric, begun string) (ids []string) {
	for j, err := range f.List(ctx, fabric.Filter{}) {
		if err == nil && strings.HasPrefix(j.ID, begun) {
			ids = append(ids, j.ID+"\t"+j.Stage+", "+string(j.State))
		}
		if len(ids) == completeMost {
			break
		}
	}
	return ids
}
