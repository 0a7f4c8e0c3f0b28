// Package native runs tools that are Go functions of this binary.
//
// A native tool must honour its context: Go cannot end a goroutine from outside. One that does
// not return within 200 ms after its context ended is abandoned: its call ends with a
// *tool.StoppedError, every chunk it still emits is refused, and it keeps occupying one of the
// runs that limits.concurrency_max allows the tool in this process. When all of them are
// occupied by strays the tool cannot be started any more, which is S-TOOL-UNAVAILABLE: bounded
// and visible, but only a restart of the process mends it. Code that cannot promise to return
// belongs in a process tool.
package native
