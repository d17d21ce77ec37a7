package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/app"
	"github.com/weft-fabric/weft/internal/roles"
	"github.com/weft-fabric/weft/job"
)

func (p *program) newAuth() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "auth",
		Short:   "Say to nats-server who may do what",
		Example: `  weft auth roles --stage hash > roles.conf`,
		Args:    noSuchCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newAuthRoles())
	return cmd
}

// rolesFlags are those of weft auth roles.
type rolesFlags struct {
	stages  []string
	any     bool
	runners string
	prefix  string
	users   bool
}

func (p *program) newAuthRoles() *cobra.Command {
	var f rolesFlags
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Print users of four roles for nats-server",
		Long: `Roles prints an account with four users and their permissions, as a file that
nats-server reads by "include" or --config:

  backend   enqueues, waits, reads, cancels; cannot claim
  runner    claims, renews, settles; cannot enqueue
  operator  everything in the namespace; what weft serve and weft keep need
  viewer    reads, and writes nothing

Each uses weft with --role ROLE (or WEFT_ROLE), which makes answers come where its
role may listen. No password is printed: the server takes them from its own
environment, WEFT_PASSWORD_NAMESPACE_ROLE, or put bcrypted ones there in place of
the variables (nats server passwd makes them). The server reads a variable as
configuration: one that looks like a number or a duration needs its quotes, '"123"'.

A stage's stream has its name in one token of a subject, and a wildcard does not
stand for a part of one. With --stage for each stage, every other work stream is
refused; print anew and reload the server when a stage comes. With --any-stage a
role can reach the work streams of other namespaces in its account, so leave the
account to this namespace.

Runners work by themselves (work), or run a keeper beside it too (keep), for which
they need what enqueues; or ask the service API alone (api), which is the strictest.
docs/adr/0013-roles.md says what a server can enforce and what it cannot.`,
		Example: `  weft auth roles --stage hash --stage resize > roles.conf
  weft auth roles --namespace media --stage encode --users-only
  weft auth roles --any-stage --runners api`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.stages, "stage", nil, "a `STAGE` that there may be; may be given again")
	flags.BoolVar(&f.any, "any-stage", false, "let there be any stage; the account must be this namespace's alone")
	flags.StringVar(&f.runners, "runners", string(roles.Work), "how runners take part: work, keep or api")
	flags.StringVar(&f.prefix, "user-prefix", "", "what users' names begin with (default NAMESPACE-)")
	flags.BoolVar(&f.users, "users-only", false, "print the users without an account, to be put into one")
	loader := config.NewLoader()
	loader.Bind(flags, "namespace")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loader.Load(cmd.Flags())
		if err != nil {
			return err
		}
		of := roles.Config{Namespace: c.Namespace, Stages: f.stages, Runners: roles.Way(f.runners)}
		if err := f.check(of); err != nil {
			return err
		}
		p.began = true
		return p.printRoles(of, f)
	}
	return cmd
}

func (f rolesFlags) check(c roles.Config) error {
	for _, stage := range c.Stages {
		if err := job.CheckStage(stage); err != nil {
			return app.Usage("--stage %q: %w", stage, err)
		}
	}
	switch {
	case len(c.Stages) == 0 && !f.any:
		return errors.New("give every stage by --stage, or --any-stage where no other namespace has the account")
	case len(c.Stages) > 0 && f.any:
		return errors.New("give --stage or --any-stage, not both")
	}
	if !slices.Contains(roles.Ways, c.Runners) {
		return fmt.Errorf("--runners %q is none of work, keep and api", c.Runners)
	}
	if strings.ContainsAny(f.prefix, "\"\\\r\n") {
		return errors.New("--user-prefix has a character that a user's name cannot have")
	}
	return nil
}

func (p *program) printRoles(c roles.Config, f rolesFlags) error {
	if err := rolesHead(p.Out, c); err != nil {
		return err
	}
	if f.users {
		return roles.Users(p.Out, c, f.prefix)
	}
	return roles.Account(p.Out, c, f.prefix)
}

// rolesHead says what the file is and what it needs.
func rolesHead(w io.Writer, c roles.Config) error {
	stages := strings.Join(c.Stages, ", ")
	if stages == "" {
		stages = "any; let no other namespace have this account"
	}
	_, err := fmt.Fprintf(w, "# Weft: the roles of namespace %s. Stages: %s. Runners: %s.\n# Passwords are in the environment of nats-server:", c.Namespace, stages, c.Runners)
	for _, r := range roles.All {
		if err == nil {
			_, err = fmt.Fprint(w, " "+roles.PasswordVariable(c.Namespace, r))
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}
