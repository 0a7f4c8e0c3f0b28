package dispatcher

import (
	"context"
	"runtime/debug"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/settle"
)

// failed answers requests whose handling has panicked with p, and says where. Unanswered, each would be sent
// again, and take one dispatcher after the other with it.
func (d *Dispatcher) failed(ctx context.Context, p any, all ...request) {
	d.panicked("a request", p)
	for _, r := range all {
		d.safely("a refusal", func() {
			e := envelope.NewError(envelope.CodeInternal, "the dispatcher failed at this request; its log says where")
			d.refuse(ctx, r, stageFailure, e, false) // it may have been admitted
		})
	}
}

// safely calls f, and reports whether it returned. A panic in it ends nothing else, and is logged with its stack.
func (d *Dispatcher) safely(what string, f func()) (returned bool) {
	defer func() {
		if p := recover(); p != nil {
			d.panicked(what, p)
		}
	}()
	f()
	return true
}

func (d *Dispatcher) panicked(what string, p any) {
	d.Logger.Error("panic", "in", what, "panic", p, "stack", string(debug.Stack()))
}

// unreadable says that an outcome is in the log in a form that this build cannot read.
func unreadable(message string) *envelope.Error {
	return envelope.NewError(envelope.CodeChecksum, message).
		WithFix("call with a new key if the call may run again; " +
			"the operator must look at the call log, and at which builds run")
}

// tellUnreadable tells a caller what the log says of the outcome of attempt n, which itself cannot be read. That
// is no outcome: another dispatcher may be able to read it.
func (d *Dispatcher) tellUnreadable(to call.Inbox, callID string, s call.State, n int) {
	a, _ := s.Attempt(n)
	if a.Decision == nil {
		return
	}
	message := "the call has ended with " + string(a.Decision.Status) + ", and the stored outcome cannot be read"
	p := envelope.Provenance{
		ToolID: s.Tool, ToolVersion: s.Version, Attempt: n, Fence: a.Decision.Fence,
		AuditEventID: settle.AuditID(s.Part, a.Decision.Seq),
	}
	e := unreadable(message).WithEffect(a.Decision.Effect)
	d.Replies.Outcome(to, envelope.Failure(callID, e, p, envelope.Metrics{}))
}
