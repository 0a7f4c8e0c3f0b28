// Package demo implements `toolbus demo`. It starts a whole bus on this machine: a NATS server that syncs every write,
// a dispatcher in this process, and two executors as processes. It makes calls that succeed and calls that fail, and
// prints what happened to each.
//
// It is also a broad smoke test: every scene checks its result, and the demo fails if one differs from what is
// expected.
//
// Start reading at scenes.go, which has the scenes. stage.go starts the bus. program.go is the tool that is killed and
// cancelled, and that leaves an orphan.
package demo
