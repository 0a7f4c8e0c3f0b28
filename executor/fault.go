package executor

import "runtime/debug"

// failed hands back a message whose handling has panicked with p, and says where. What becomes of its call is up to
// the log, as if this executor had died: it runs again where it may, and is a poison call when it was claimed five
// times; a side-effectful one that was claimed has an unknown effect.
func (e *Executor) failed(m Message, p any) {
	e.Logger.Error("panic", "call", m.Entry.State.ID, "attempt", m.Entry.Attempt, "panic", p,
		"stack", string(debug.Stack()))
	m.Lease.HandBack(retryDelay)
}
