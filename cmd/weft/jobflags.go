package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/job"
)

// jobFlags say what a job is, whenever it is enqueued.
type jobFlags struct {
	spec     job.Spec
	payload  string
	policy   string
	conflict fabric.Conflict
	labels   []string
}

func (f *jobFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.spec.InputRef, "input-ref", "", "`REF` of the input")
	flags.Int64Var(&f.spec.InputRevision, "input-revision", 0, "`REVISION` of the input")
	flags.StringVar(&f.payload, "payload", "", "small `JSON` for the command")
	flags.StringVar(&f.spec.Key, "key", "", "`KEY` that the job is for; it supersedes older jobs of the key")
	flags.StringVar((*string)(&f.conflict), "on-conflict", string(fabric.Supersede), "when the key has a live job: supersede it, reject this one, or coalesce into it")
	flags.StringArrayVar(&f.spec.Dependencies, "after", nil, "`ID` of a job that must have succeeded first; may be given again")
	flags.StringVar(&f.policy, "on-dependency-failure", "", "wait or cancel (default wait)")
	flags.IntVar(&f.spec.Priority, "priority", 0, "`LANE` from 1, first, to 4 (default 3)")
	flags.DurationVar(&f.spec.Timeout, "timeout", 0, "limit of one attempt (default none)")
	flags.StringArrayVar(&f.labels, "label", nil, "label as `NAME=VALUE`; may be given again")
}

// checkJob refuses what the flags' own forms let pass, and moves into the spec what
// a flag cannot write there itself.
func (f *jobFlags) checkJob(given func(string) bool) (err error) {
	switch {
	case given("timeout") && f.spec.Timeout <= 0:
		return fmt.Errorf("--timeout %s is not above 0; leave it out for no limit", f.spec.Timeout)
	case given("priority") && f.spec.Priority < job.HighestPriority:
		return fmt.Errorf("--priority %d is not within %d and %d", f.spec.Priority, job.HighestPriority, job.LowestPriority)
	case given("payload") && !json.Valid([]byte(f.payload)):
		return fmt.Errorf("--payload %.80q is not JSON; a text needs its quotes", f.payload)
	case !slices.Contains([]fabric.Conflict{fabric.Supersede, fabric.Reject, fabric.Coalesce}, f.conflict):
		return fmt.Errorf("--on-conflict %q is none of supersede, reject and coalesce", f.conflict)
	}
	if given("payload") {
		f.spec.Payload = json.RawMessage(f.payload)
	}
	f.spec.OnDependencyFailure = job.DependencyPolicy(f.policy)
	f.spec.Labels, err = parseLabels(f.labels)
	return err
}

// parseLabels reads NAME=VALUE pairs.
func parseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	labels := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--label %q is not NAME=VALUE", pair)
		}
		if _, twice := labels[name]; twice {
			return nil, fmt.Errorf("--label %s is given twice", name)
		}
		labels[name] = value
	}
	return labels, nil
}
