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
// Each run is in a Landlock domain of its own, as far as the kernel has it. None of its processes sends a signal to a
// process outside, attaches to it, or reads its memory, environment and open files. [HostReach] returns what this
// kernel leaves open. The thread of the supervisor that starts the tool must be in the domain, because Go runs no code
// between fork and exec. So a tool can kill its own supervisor. The program itself then dies, too (parent death
// signal), but daemons that it left do not.
//
// Limits: the domain covers neither files nor the resource limits of other processes of the user. A sandbox must
// contain hostile tools.
//
// Start reading at run_linux.go, the executor's side, and supervisor_linux.go, the process itself. domain_linux.go has
// the domain, wire.go the messages between the two.
package supervisor
