// Package docs reads the pages of the repository, so that tests hold them to what
// they say. Its own tests run every sample; those of cmd/weft look up every command
// line. It judges nothing by itself and changes no page.
//
// Whoever writes a page needs to know this:
//
//   - Samples are fenced blocks. Those of a page run in order, in one shell with
//     -euo pipefail and in one folder. It has what testdata/page has, and weft and nats
//     are on its PATH. NATS_URL is a weft serve of the page alone.
//   - A last line that stays, such as weft serve or weft work, runs as if "&" stood
//     behind it: a reader has a terminal more. What was started so is ended with the
//     "##" section, and must not have failed by then. Once a block has a weft serve of
//     its own, the rest of the section talks to it.
//   - A block of json, text or no language right behind one of sh is what that one
//     writes to stdout. Times and ULIDs match each other, "…" matches anything, and
//     spaces count once. JSON may be laid out in any way.
//   - In a block of text a line "$ COMMAND" is run, and what follows is what it
//     writes, to stderr too. It may fail.
//   - A time in a nats req is taken for now, and 127.0.0.1:PORT for a port that is free.
//   - A block of json elsewhere is a record if it has a state, a spec if it has an
//     input_ref, and else any JSON.
//   - A block of go stands, line by line, in an example_test.go, where it compiles and
//     runs.
//   - A comment right before a block says something else of it: <!-- file: NAME -->
//     puts it into the folder; <!-- not run: WHY --> leaves it out, of which there are
//     few; <!-- run by: TestName --> leaves it to another test, and <!-- command: NAME -->
//     to .ci/run.
package docs
