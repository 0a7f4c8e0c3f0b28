// Package supervisor is the small process that stands between an executor and a tool, and the executor's side of it:
// [Start] starts a program under a supervisor, and the [Run] that it returns ends it. Every adapter whose tools are
// processes uses it; it knows neither tools nor adapters.
//
// There is one supervisor per run, and it exists so that a run can always be ended as a whole.
// It is a child subreaper: a process below it that loses its parent becomes its child, however
// often it forked and whatever session it moved to. So "nothing is left of the run" is a fact
// that the kernel reports (wait: no child), and not a guess about process groups.
//
// A supervisor and its executor share one socket, the control socket:
//
//	executor → supervisor   one Config, then Command bytes; its end means Kill
//	supervisor → executor   one Report, when nothing of the run is left
//
// The kernel closes the executor's end however the executor dies, so the tools of an executor
// that got SIGKILL die with it. An executor that is frozen (SIGSTOP, a paused machine or container) closes nothing
// and says nothing, so the Config also says how long the run may last, and the supervisor holds that by itself:
// the tree is gone by the deadline, [Overdue] and the grace.
//
// What it does not promise: a tool that runs as the same user may kill its supervisor on
// purpose. The program itself then dies too (parent death signal); daemons it left do not.
// Keeping hostile tools in is the sandbox's task.
//
// Start reading at run_linux.go, the executor's side, and supervisor_linux.go, the process itself; wire.go is what
// they say to each other.
package supervisor
