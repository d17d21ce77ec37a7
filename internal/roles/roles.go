package roles

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what a user of a fabric is there for.
type Role string

// The roles.
const (
	Backend  Role = "backend"  // enqueues, waits, reads, cancels, lands outcomes
	Runner   Role = "runner"   // claims, renews and settles
	Operator Role = "operator" // everything in the namespace
	Viewer   Role = "viewer"   // reads
)

// All are the roles in the order in which they are printed.
var All = []Role{Backend, Runner, Operator, Viewer}

// Parse gives the role of a name.
func Parse(name string) (Role, error) {
	if !slices.Contains(All, Role(name)) {
		return "", fmt.Errorf("role %q is none of backend, runner, operator and viewer", name)
	}
	return Role(name), nil
}

// Way is how runners take part.
type Way string

// The ways of runners.
const (
	Work Way = "work" // weft work without keeper: it offers jobs again by schedules alone
	Keep Way = "keep" // weft work with keeper, which has to offer jobs and make consumers
	API  Way = "api"  // requests to the service API, and nothing of JetStream
)

// Ways are all of them.
var Ways = []Way{Work, Keep, API}

// Config is what the permissions are computed from.
type Config struct {
	Namespace string
	// Stages are those that there may be. The name of a stage's stream is one token
	// of a subject, and no wildcard stands for a part of a token: without stages, any
	// stream's name is let pass where a work stream's is meant, and so the work
	// streams of other namespaces in the account.
	Stages  []string
	Runners Way // Work if empty
}

// Access is what may be done with subjects of one direction. What is not allowed is
// refused, and so is what is both allowed and denied.
type Access struct{ Allow, Deny []string }

// Permissions are one role's.
type Permissions struct{ Publish, Subscribe Access }

// InboxPrefix is where the answers to a role's requests come. Each role has its
// own, so that none reads another's.
func InboxPrefix(namespace string, r Role) string { return "_INBOX_" + namespace + "_" + string(r) }

// MayEnqueue is a subject that whoever may publish the items of a stage may publish
// to, and that no stream keeps.
func MayEnqueue(namespace, stage string) string { return namespace + ".work." + stage + ".may.enqueue" }

// Act is what a server cannot tell from something else by the subjects that it
// takes: a runner too writes records, and a backend the settings of a new stage.
// Weft asks for a permission of its own before it does it, so that a user learns
// that it is not his, and nothing is left half done. It is no wall against a program
// that does not ask.
type Act string

// The acts.
const (
	Look    Act = ""        // a read, of which the server sees all that there is to see
	Cancel  Act = "cancel"  // end a job by hand
	Operate Act = "operate" // retry a job, change a stage or a cron entry, repair
	Land    Act = "land"    // take of a feed of outcomes, or remove one
)

// May is a subject that whoever may do it may publish to, and that no stream keeps.
func May(namespace string, a Act) string { return namespace + ".may." + string(a) }

// Of computes a role's permissions.
func Of(c Config, r Role) Permissions {
	n := names{c.Namespace, c.Stages}
	p := Permissions{Subscribe: Access{Allow: []string{InboxPrefix(c.Namespace, r) + ".>"}}}
	switch r {
	case Backend:
		n.backend(&p)
	case Runner:
		n.runner(&p, c.Runners)
	case Operator:
		n.operator(&p)
	case Viewer:
		n.viewer(&p)
	}
	for _, list := range []*[]string{&p.Publish.Allow, &p.Publish.Deny, &p.Subscribe.Allow, &p.Subscribe.Deny} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return p
}

func (n names) backend(p *Permissions) {
	n.reads(p)
	p.publish(n.keys("job.*", "current.*", "stage.*", "outcomes.*")...)
	p.publish("$JS.ACK." + n.bucket() + ".>") // outcomes; all else that reads the bucket acknowledges nothing
	p.publish(n.offers("work", "lane", "later")...)
	p.publish(n.under("signal.*", "may."+string(Cancel), "may."+string(Land))...)
	p.publish(n.under("api.enqueue", "api.get", "api.wait", "api.cancel")...)
	p.publish(stream("CREATE", n.bucket())...)
	for _, work := range n.workStreams() {
		p.publish(stream("CREATE", work)...)
		p.publish(stream("MSG.DELETE", work)...) // a cancel takes the item away
		p.publish(consumer("CREATE", work, ">")...)
		if work != "*" { // which the bucket's are too
			p.Publish.Deny = append(p.Publish.Deny, consumer("MSG.NEXT", work, ">")...)
			p.Publish.Deny = append(p.Publish.Deny, "$JS.ACK."+work+".>")
		}
		for _, lane := range lanes {
			p.Publish.Deny = append(p.Publish.Deny, "$JS.ACK."+work+"."+lane+".>")
		}
	}
	p.publish(n.stores(n.input())...)
	p.subscribe(n.under("event.>")...)
	p.Publish.Deny = append(p.Publish.Deny, n.under("api.claim", "api.renew", "api.complete", "api.fail", "api.release")...)
}

func (n names) runner(p *Permissions, way Way) {
	p.publish(n.under("api.claim", "api.renew", "api.complete", "api.fail", "api.release")...)
	p.subscribe(n.under("signal.*")...)
	p.Publish.Deny = append(p.Publish.Deny, n.under("api.enqueue", "api.cancel", "api.retry")...)
	if way == API {
		p.Publish.Deny = append(p.Publish.Deny, "$JS.>", "$KV.>", "$O.>")
		p.Publish.Deny = append(p.Publish.Deny, n.under("work.>", "lane.>", "later.>")...)
		return
	}
	n.reads(p)
	p.publish(n.keys("job.*", "current.*", "worker.*", "rate.*", "limit.>")...)
	p.publish(n.offers("later")...)
	p.publish(n.under("signal.*")...) // of a job that turns out to be superseded
	for _, work := range n.workStreams() {
		for _, lane := range lanes {
			p.publish(consumer("MSG.NEXT", work, lane)...)
			p.publish("$JS.ACK." + work + "." + lane + ".>")
		}
		p.publish(stream("MSG.DELETE", work)...) // a retry that is taken out of its turn
	}
	p.publish(n.stores(n.output())...)
	if way != Keep {
		p.Publish.Deny = append(p.Publish.Deny, n.under("work.>", "lane.>")...)
		return
	}
	p.publish(n.keys("leader.keeper", "count.*", "stage.*", "cron.*")...)
	p.publish(n.offers("work", "lane")...)
	p.publish(n.under("cron.*")...) // a schedule that is gone or not as its entry says
	p.publish(stream("MSG.DELETE", n.cron())...)
	p.publish(stream("MSG.DELETE", object(n.input()))...) // an input that nothing mentions
	p.publish(stream("PURGE", object(n.input()))...)
	p.publish(consumer("CREATE", n.cron(), ">")...)
	p.publish(consumer("MSG.NEXT", n.cron(), ticks)...)
	p.publish("$JS.ACK." + n.cron() + "." + ticks + ".>")
	for _, work := range n.workStreams() {
		p.publish(stream("CREATE", work)...)
		p.publish(consumer("CREATE", work, ">")...)
		p.publish(consumer("PAUSE", work, "*")...)
	}
}

func (n names) operator(p *Permissions) {
	n.reads(p)
	p.publish(n.keys(">")...)
	p.publish(n.under(">")...)
	for _, s := range append(n.workStreams(), n.cron(), n.bucket(), object(n.input()), object(n.output())) {
		// Each verb has its number of tokens, so that no other stream's name can
		// stand where this one's consumer is meant.
		p.publish(stream("*", s)...)
		p.publish(stream("MSG.*", s)...)
		p.publish(stream("LEADER.STEPDOWN", s)...)
		p.publish("$JS.API.CONSUMER.*."+s, "$JS.API.CONSUMER.*."+s+".>")
		for _, verb := range []string{"MSG.NEXT", "DURABLE.CREATE", "LEADER.STEPDOWN"} {
			p.publish(consumer(verb, s, "*")...)
		}
		p.publish("$JS.ACK." + s + ".>")
	}
	p.publish("$O."+n.input()+".>", "$O."+n.output()+".>")
	// weft serve answers whoever asks.
	for _, r := range All {
		p.publish(InboxPrefix(n.namespace, r) + ".>")
	}
	p.subscribe(n.under(">")...)
	p.subscribe("$SRV.*", "$SRV.*.weft", "$SRV.*.weft.*")
}

func (n names) viewer(p *Permissions) {
	n.reads(p)
	p.publish(n.under("api.get", "api.wait")...)
	p.subscribe(n.under("event.>")...)
	p.Publish.Deny = append(p.Publish.Deny, "$KV.>", "$O.>", "$JS.ACK.>")
	p.Publish.Deny = append(p.Publish.Deny, n.under("work.>", "lane.>", "later.>", "signal.>")...)
}

// reads is what every look at the fabric takes: the bucket by questions and by
// consumers of its own, the work streams by questions alone, and the objects.
func (n names) reads(p *Permissions) {
	for _, s := range []string{n.bucket(), object(n.input()), object(n.output())} {
		p.publish(stream("INFO", s)...)
		p.publish(stream("MSG.GET", s)...)
		p.publish("$JS.API.CONSUMER.CREATE." + s)
		for _, verb := range []string{"CREATE", "INFO", "MSG.NEXT", "DELETE"} {
			p.publish(consumer(verb, s, ">")...)
		}
		p.publish("$JS.FC." + s + ".>") // a consumer that is pushed asks whether its client keeps up
	}
	for _, s := range []string{object(n.input()), object(n.output())} {
		p.publish("$JS.API.DIRECT.GET."+s, "$JS.API.DIRECT.GET."+s+".>")
	}
	for _, work := range append(n.workStreams(), n.cron()) {
		p.publish(stream("INFO", work)...)
		p.publish(stream("MSG.GET", work)...)
		p.publish(consumer("INFO", work, "*")...)
	}
}

func (p *Permissions) publish(subjects ...string) {
	p.Publish.Allow = append(p.Publish.Allow, subjects...)
}

func (p *Permissions) subscribe(subjects ...string) {
	p.Subscribe.Allow = append(p.Subscribe.Allow, subjects...)
}

// lanes are the names of a stage's consumers.
var lanes = []string{"runners", "runners-1", "runners-2", "runners-4"}

// ticks is the name of the consumer of all cron entries' ticks.
const ticks = "keeper"

// names are those of one namespace's assets and subjects.
type names struct {
	namespace string
	stages    []string
}

func (n names) bucket() string { return "KV_" + n.namespace }
func (n names) cron() string   { return strings.ToUpper(n.namespace) + "_CRON" }
func (n names) input() string  { return n.namespace + "-input" }
func (n names) output() string { return n.namespace + "-output" }

// object is the stream of an object store.
func object(store string) string { return "OBJ_" + store }

func (n names) workStreams() []string {
	if len(n.stages) == 0 {
		return []string{"*"}
	}
	streams := make([]string, len(n.stages))
	for i, stage := range n.stages {
		streams[i] = strings.ToUpper(n.namespace) + "_" + stage
	}
	return streams
}

func (n names) under(rest ...string) []string { return prefixed(n.namespace+".", rest) }

func (n names) keys(keys ...string) []string { return prefixed("$KV."+n.namespace+".", keys) }

// offers are the subjects of a kind below each stage.
func (n names) offers(kinds ...string) []string {
	stages := n.stages
	if len(stages) == 0 {
		stages = []string{"*"}
	}
	var subjects []string
	for _, kind := range kinds {
		for _, stage := range stages {
			subjects = append(subjects, n.namespace+"."+kind+"."+stage+".>")
		}
	}
	return subjects
}

// stores is what it takes to put objects into a store, which is made at the first.
func (n names) stores(store string) []string {
	return slices.Concat([]string{"$O." + store + ".>"}, stream("CREATE", object(store)), stream("PURGE", object(store)))
}

func stream(verb, name string) []string { return []string{"$JS.API.STREAM." + verb + "." + name} }

func consumer(verb, stream, name string) []string {
	return []string{"$JS.API.CONSUMER." + verb + "." + stream + "." + name}
}

func prefixed(prefix string, rest []string) []string {
	subjects := make([]string, len(rest))
	for i, r := range rest {
		subjects[i] = prefix + r
	}
	return subjects
}
