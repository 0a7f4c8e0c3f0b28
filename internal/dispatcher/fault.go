package dispatcher

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
)

// failed logs the panic p, and answers the requests that caused it. Without an answer, clients would send them again,
// and make other dispatchers panic.
func (d *Dispatcher) failed(ctx context.Context, p any, all ...*check.Request) {
	d.panicked("a request", p)
	for _, r := range all {
		d.safely("a refusal", func() {
			e := envelope.NewError(envelope.CodeInternal, "the dispatcher failed at this request; its log says where")
			d.refuse(ctx, r, stageFailure, e, false) // notStarted is false: the call may have been admitted
		})
	}
}

// safely calls f and reports whether f returned. It recovers from a panic of f and logs it with its stack.
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

// load returns the stored outcome of attempt n. If an executor stored an outcome that cannot be read, and d.Strange
// identifies the executor, load returns the response of spoiled instead. Dispatchers are updated before executors, so a
// correct executor never stores an outcome that dispatchers cannot read. All dispatchers return the same response for
// such an attempt.
func (d *Dispatcher) load(ctx context.Context, s call.State, n int) (outcome.Stored, error) {
	o, err := outcome.Load(ctx, d.CallLog, s, n)
	if errors.Is(err, outcome.ErrUnreadable) && d.Strange != nil && d.Strange(call.Instance(o.Attempt.Decision.Nonce)) {
		o.Response = spoiled(o)
		return o, nil
	}
	return o, err
}

// spoiled returns the response for an attempt whose executor stored an unreadable outcome.
func spoiled(o outcome.Stored) *envelope.Response {
	s, a := o.State, o.Attempt
	e := envelope.NewError(envelope.CodeToolUnknownState, "the executor stored an outcome that cannot be read")
	p := envelope.Provenance{
		ToolID: s.Tool, ToolVersion: s.Version, Digest: s.Digest, Attempt: a.N, Fence: a.Decision.Fence, Final: true,
		AuditEventID: s.At(a.Decision.Seq).EventID(),
	}
	return envelope.Failure(a.Owner.CallID, e, p, envelope.Metrics{Attempts: a.N})
}

// unreadable returns the error for an outcome that is in the log but cannot be read by this build.
func unreadable(message string) *envelope.Error {
	return envelope.NewError(envelope.CodeChecksum, message).
		WithFix("call with a new key if the call may run again; " +
			"the operator must look at the call log, and at which builds run")
}

// tellUnreadable sends a caller the status and effect of attempt n, whose outcome cannot be read. The answer has Final
// false, because another dispatcher may be able to read the outcome.
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
	d.Replies.Outcome(to, envelope.Failure(callID, e, p, envelope.Metrics{}).Correlated(a.Owner.Trace))
}
