// Package roles says who may do what, as permissions of nats-server: for each
// role of a fabric the subjects that its users may publish and subscribe to. It
// computes them from the namespace and the stages in one place, prints them as a
// configuration that nats-server reads, and tells which role may use a subject
// that somebody was refused.
//
// The rule it keeps: a role is given what it needs by name and nothing by
// exclusion, so that what nobody thought of is refused. What a role must not have
// is denied on top of that, so that it stays refused when somebody widens the
// list.
//
// A server looks at subjects alone, never at what a message says. It cannot tell a
// record that is created from one that is changed, nor where the messages of a
// consumer are to go. docs/adr/0013-roles.md says what follows from that.
package roles
