//go:build !linux

package main

import "context"

// Elsewhere the judge builds, so that the module does, and says why it cannot
// judge: rlimits and /proc differ too much to promise the same verdicts.

func isLauncher([]string) bool { return false }

func launch([]string) int { return exitPermanent }

func runTask(context.Context, task) (outcome, error) {
	return outcome{}, permanentf("submissions can be confined on Linux only; run this stage's runner there")
}
