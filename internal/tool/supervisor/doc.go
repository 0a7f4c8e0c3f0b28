// Package supervisor implements the supervisor, a small process between an executor and a tool, and the executor's side
// of it. [Start] starts a program under a supervisor, and returns a [Run] with which the executor ends it. The adapters
// for programs and for MCP servers use it. It does not depend on them.
//
// Each run has its own supervisor, so that all processes of the run can be ended. A supervisor is a child subreaper: a
// descendant that loses its parent becomes its child, even after several forks and in another session. So when wait
// reports that the supervisor has no child, no process of the run is left.
//
// A supervisor and its executor share one socket, the control socket:
//
//	executor → supervisor   one Config, then Command bytes; its end means Kill
//	supervisor → executor   one Report, when no process of the run is left
//
// When the executor dies, even by SIGKILL, the kernel closes its end of the socket, and the supervisor kills the run. A
// frozen executor (SIGSTOP, a paused machine or container) closes and sends nothing. So the Config also contains the
// time that the run may take, and the supervisor enforces it: all processes have ended at the latest by the deadline
// plus [Overdue] plus the grace.
//
// Limits: a tool that runs as the same user can kill its supervisor. The program itself then dies, too (parent death
// signal), but daemons that it left do not. A sandbox must contain hostile tools.
//
// Start reading at run_linux.go, the executor's side, and supervisor_linux.go, the process itself. wire.go defines the
// messages between them.
package supervisor
