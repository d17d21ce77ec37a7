// Package app is the process as a value: it wires a server or a connection, the
// fabric, its keeper, the service API and a worker together, and takes them apart
// again.
//
// Start registers the undoing of each part the moment the part exists; Stop
// undoes them, the last first. A start that fails half-way undoes what there is
// before it returns, so that no error leaves a server, a lock or a temporary
// directory behind.
//
// The package also owns the two things that all commands share: what a signal
// means (Signals), and what an error means to the shell (ExitCode).
package app
