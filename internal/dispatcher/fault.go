package dispatcher

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
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
	d.Logger.Error("panic", "operation", what, "panic", p, "stack", string(debug.Stack()))
}

// load returns the stored outcome of attempt n. Where an executor stored one that cannot be read, and it can be told
// that it did, that is the end of the attempt: executors are replaced after dispatchers, so no good one stores what
// these do not read. All dispatchers say the same of it, and nothing else is ever said.
func (d *Dispatcher) load(ctx context.Context, s call.State, n int) (outcome.Stored, error) {
	o, err := outcome.Load(ctx, d.CallLog, s, n)
	if errors.Is(err, outcome.ErrUnreadable) && d.Strange != nil && d.Strange(call.Instance(o.Attempt.Decision.Nonce)) {
		o.Response = spoiled(o)
		return o, nil
	}
	return o, err
}

// spoiled is what is told of an attempt that an executor ended by what cannot be read.
func spoiled(o outcome.Stored) *envelope.Response {
	s, a := o.State, o.Attempt
	e := envelope.NewError(envelope.CodeToolUnknownState, "the executor stored an outcome that cannot be read")
	p := envelope.Provenance{
		ToolID: s.Tool, ToolVersion: s.Version, Digest: s.Digest, Attempt: a.N, Fence: a.Decision.Fence, Final: true,
		AuditEventID: s.At(a.Decision.Seq).EventID(),
	}
	return envelope.Failure(a.Owner.CallID, e, p, envelope.Metrics{Attempts: a.N})
}

// unreadable says that an outcome is in the log in a form that this build cannot read.
func unreadable(message string) *envelope.Error {
	return envelope.NewError(envelope.CodeChecksum, message).
		WithFix("call with a new key if the call may run again; " +
			"the operator must look at the call log, and at which builds run")
}

// tellUnreadable tells a caller what the log says of the outcome of attempt n, which itself cannot be read. That
// is no outcome: another dispatcher may be able to read it.
func (d *Dispatcher) tellUnreadable(to call.ReplyAddress, callID string, s call.State, n int) {
	a, _ := s.Attempt(n)
	if a.Decision == nil {
		return
	}
	message := "the call has ended with " + string(a.Decision.Status) + ", and the stored outcome cannot be read"
	p := envelope.Provenance{
		ToolID: s.Tool, ToolVersion: s.Version, Attempt: n, Fence: a.Decision.Fence,
		AuditEventID: s.At(a.Decision.Seq).EventID(),
	}
	e := unreadable(message).WithEffect(a.Decision.Effect)
	d.Replies.Outcome(to, envelope.Failure(callID, e, p, envelope.Metrics{}))
}
