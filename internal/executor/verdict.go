package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// verdict is how an attempt must end: the result of a run, or the reason why there was no run.
type verdict struct {
	end   call.Completion
	draft outcome.Draft
	// err means that the attempt is not decided. It is errDrained if the executor shut down during the run: the next
	// executor that gets the message decides by the log.
	err error
}

// Causes of the end of a run's context.
var (
	errDeadline = fmt.Errorf("the call: %w", context.DeadlineExceeded)
	errKilled   = errors.New("killed by a cancel")
	errDrained  = errors.New("the executor shuts down")
)

// drained returns the verdict of a run that failed with err while the executor shut down. Other executors decide the
// attempt, except if a call that runs once had no effect: only this executor knows that.
func (r *run) drained(v verdict, err error) verdict {
	if r.job.state.MayRunAgain() || v.end.Effect != envelope.EffectNone {
		v.err = errDrained
		return v
	}
	if stopped, ok := errors.AsType[*tool.StoppedError](err); ok { // its code says that the call was cancelled
		v.draft.Error = envelope.NewError(envelope.CodeUnavailable, "the executor shut down, and the tool did nothing").
			WithEffect(envelope.EffectNone).WithStderr(stopped.Stderr)
		v.end.Error = v.draft.Error.Code
	}
	return v
}

// handedBack says what becomes of a call that this executor does not decide.
func (j *job) handedBack() string {
	if j.claim != "" && !j.state.MayRunAgain() {
		return "a call that runs once was cut off: its lookup is asked, or its effect is unknown"
	}
	return "a call is handed back, to be tried again"
}

// faultError is the error of a run whose tool was not started. It implements [envelope.Fault].
type faultError struct{ fault *envelope.Error }

func (f faultError) Error() string          { return f.fault.Message }
func (f faultError) Fault() *envelope.Error { return f.fault }

// unrunnable returns the verdict of an attempt whose tool cannot run.
func unrunnable(fault *envelope.Error) verdict {
	end := call.Completion{Cause: call.Unrunnable, Error: fault.Code, Effect: envelope.EffectNone}
	return verdict{end: end, draft: outcome.Draft{Error: fault}}
}

// unconfirmed returns the verdict of an attempt whose executor is gone and whose effect the lookup did not confirm.
func unconfirmed(answer call.LookupAnswer, fault *envelope.Error) verdict {
	end := call.Completion{Cause: call.ClaimLost, Answer: answer}
	return verdict{end: end, draft: outcome.Draft{Error: fault}}
}

// expired returns the verdict of an attempt whose deadline passed before its run. On a first delivery no other executor
// can have started it, and a later delivery is past the deadline as well.
func expired(j *job) verdict {
	first := j.delivery.Deliveries <= 1
	return verdict{end: call.Completion{Cause: call.TimedOut, NotTaken: first, Stored: call.At(j.enqueued())}}
}

// interrupted returns the cause of the end of a run whose context ended before it.
func interrupted(cause error, otherwise call.Cause) call.Cause {
	switch {
	case errors.Is(cause, errDeadline):
		return call.TimedOut
	case errors.Is(cause, errKilled):
		return call.Cancelled
	}
	return otherwise
}

// outcomes decides attempts, and sends outcomes to callers.
type outcomes struct{ *Options }

// decide decides the attempt of a job, and sends the outcome in the log to the caller.
func (o outcomes) decide(j *job, v verdict) error {
	end := v.end
	end.By, end.Nonce, end.Now, end.Claim = call.ByExecutor, o.NewNonce(), call.At(o.Now()), j.claim
	j.step(call.TraceBeforeDecide)
	ctx := j.shared.longer
	v.draft.Owner = o.owner(j)
	stored, err := o.write(ctx, j, end, v.draft.WithIgnoredWarnings(j.current()))
	unreadable := errors.Is(err, outcome.ErrUnreadable)
	if err != nil && !unreadable {
		return err
	}
	j.state = stored.State
	stored.Emit(j.ctx, &o.Trace)
	if !stored.Won && late(stored.State, end, stored.Attempt.Decision) {
		if err := o.Records.LateResult(ctx, stored.State, j.attempt, end); err != nil {
			return err
		}
		j.step(call.TraceLate)
	}
	if unreadable {
		return err
	}
	o.reply(j, stored)
	return nil
}

// write writes the decision of the attempt. While the log is full, it waits and keeps the result, because another run
// of the tool might not give the same result.
func (o outcomes) write(
	ctx context.Context, j *job, end call.Completion, d outcome.Draft,
) (stored outcome.Stored, err error) {
	err = timer.Backoff{Pause: retryDelay}.Until(ctx, func(ctx context.Context) (done bool, err error) {
		stored, err = outcome.Resolve(ctx, o.CallLog, j.state, j.attempt, j.delivery.Admitted, end, d, j.earlier)
		if done = !errors.Is(err, call.ErrFull); !done {
			o.Logger.Warn("the call log is full: a decision waits", "call", j.state.ID, "attempt", j.attempt)
		}
		return done, err
	})
	return stored, err
}

// owner returns the owner of the tool of a further attempt, or "" if this executor does not have the tool.
func (o outcomes) owner(j *job) string {
	if j.attempt == 1 {
		return "" // not needed, see outcome.Draft
	}
	m, _ := o.Catalog.Get(j.state.Tool, j.state.Version)
	if m == nil {
		return ""
	}
	return m.Owner
}

// late reports whether the result of a run differs from the decision that another process made: the run ended
// differently, or a run that was ended knows more about its effect.
func late(s call.State, end call.Completion, d *call.Decision) bool {
	switch end.Cause {
	case call.ToolEnded:
		return end.Error != d.Code || end.Output != d.OutputHash
	case call.TimedOut, call.Cancelled:
		return !s.HasNoEffect() && end.Effect != envelope.EffectUnknown && end.Effect != d.Effect
	}
	return false
}

// deliver sends the stored outcome to the caller.
func (o outcomes) deliver(j *job) error {
	stored, err := outcome.Load(j.ctx, o.CallLog, j.state, j.attempt)
	if err != nil {
		return err
	}
	o.reply(j, stored)
	return nil
}

func (o outcomes) reply(j *job, stored outcome.Stored) {
	j.step(call.TraceBeforeReply)
	owner := stored.Attempt.Owner
	o.Replies.Outcome(owner.ReplyAddress(), stored.For(owner.CallID, false))
}
