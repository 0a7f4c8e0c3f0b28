// Package demo shows Toolbus at work: `toolbus demo` starts a whole bus on this machine (a NATS
// server that syncs to disk, a dispatcher in this process, two executors as processes of their
// own), puts calls through it that go well and badly, and prints what became of each.
//
// It is also the widest smoke test there is: every line knows what must come out, and one that
// comes out otherwise makes the whole demo fail.
//
// Start reading at scenes.go, which holds the lines; stage.go builds the bus under them and
// program.go is the tool that is killed, cancelled and orphaned.
package demo
