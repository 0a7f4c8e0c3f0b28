package executor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Causes of the end of a run's context.
var (
	errDeadline = fmt.Errorf("the call: %w", context.DeadlineExceeded)
	errKilled   = errors.New("killed by a cancel")
	errDrained  = errors.New("the executor shuts down")
)

// verdict is the result of a run: how its attempt must end.
type verdict struct {
	end   call.Completion
	draft outcome.Draft
	// err is errDrained when the executor shut down during the run: then it decides nothing, and the next executor that
	// gets the message decides by the log.
	err error
}

// run runs the tool until it ends, its deadline passes or it is killed, and ends the attempt. Then the tool and all its
// processes are gone, except if its adapter has abandoned it.
func (e *Executor) run(j *job) error {
	m, adapter, fault := e.find(j)
	ctx := e.begun(e.untilDue(j, &j.run), j, m)
	if fault != nil {
		return e.over(j, unrunnable(fault))
	}
	inv, err := e.invocation(ctx, j, m)
	if err == nil {
		err = cmp.Or(ctx.Err(), e.permitted(ctx, j))
	}
	if err != nil {
		return e.over(j, unprepared(j, err))
	}
	j.adapter, j.manifest = adapter, m
	if err := j.validate(ctx, inv); errors.Is(err, tool.ErrAbandoned) {
		return err
	} else if err != nil {
		return e.over(j, j.denied(ctx, err))
	}
	j.chunks = chunkSink{e: e, j: j, m: m}
	j.started = e.Now()
	j.setRunning()
	e.step(call.TraceBeforeEffect, j)
	res, err := adapter.Execute(ctx, m, inv, &j.chunks)
	if errors.Is(err, tool.ErrAbandoned) {
		return err
	}
	return e.over(j, e.returned(j, res, err))
}

// validate asks the adapter whether it refuses the call.
func (j *job) validate(ctx context.Context, inv tool.Invocation) error {
	j.validates = true
	err := tool.ValidateCall(ctx, j.adapter, j.manifest, inv)
	j.validates = errors.Is(err, tool.ErrAbandoned) // the goroutine that continues reads it
	return err
}

// denied returns the verdict of an attempt that its adapter refused with err, or did not answer for before ctx ended.
// This run had no effect. [call.Decide] knows whether another one may have had one.
func (j *job) denied(ctx context.Context, err error) verdict {
	if ctx.Err() != nil {
		return unprepared(j, err)
	}
	harmless := *j.manifest
	harmless.Class = call.Pure
	return unrunnable(tool.ClassifyError(j.adapter, &harmless, err).WithEffect(envelope.EffectNone))
}

// returned makes the verdict from what a run has returned, or, for an abandoned run, from what its adapter returned in
// its place.
func (e *Executor) returned(j *job, res tool.Result, err error) verdict {
	e.step(call.TraceAfterEffect, j)
	stored, streamErr := j.chunks.stored()
	if err == nil && streamErr != nil {
		err = streamErr
	}
	end, draft := e.outcome(j.run, j, j.manifest, res, j.failure(err))
	if cause := j.cause(); err != nil && cause != nil {
		end.Cause = interrupted(cause, end.Cause)
	}
	draft.Chunks = stored
	draft.Warnings = j.chunks.warn(draft.Warnings)
	if err != nil && j.ctx.Err() != nil {
		return verdict{end, draft, errDrained}
	}
	return verdict{end, draft, nil}
}

// over ends the attempt of a run with the verdict v.
func (e *Executor) over(j *job, v verdict) error {
	j.observed(v)
	j.freeInput()
	if v.err != nil {
		return v.err
	}
	return e.finish(j, v.end, v.draft)
}

// Abandoned implements [timer.Owner]: the tool does not return, and its message is handled without it.
func (j *job) Abandoned(end func() error) {
	j.abandoned.Store(true)
	j.message.Lease.TakeOver(func() {
		e := j.executor
		defer e.unharmed(j.message)
		e.conclude(j, true, func() error {
			switch err := end(); {
			case j.looks:
				return e.confirmed(j, j.manifest, tool.Result{}, false, err)
			case j.validates:
				return e.over(j, j.denied(j.run, err))
			default:
				return e.over(j, e.returned(j, tool.Result{}, err))
			}
		})
	})
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

func unrunnable(fault *envelope.Error) verdict {
	end := call.Completion{Cause: call.Unrunnable, Error: fault.Code, Effect: envelope.EffectNone}
	return verdict{end: end, draft: outcome.Draft{Error: fault}}
}

// unprepared returns the verdict of an attempt whose tool was not started, usually because its input could not be read.
// The effect is none, so an attempt that timed out or was cancelled may run again.
func unprepared(j *job, err error) verdict {
	fault := envelope.NewError(envelope.CodeInputMissing, "")
	known, isKnown := errors.AsType[envelope.Fault](err)
	cause := j.cause()
	switch {
	case j.ctx.Err() != nil && j.claim == "":
		return verdict{err: errDrained}
	case j.ctx.Err() != nil: // from the claim alone, no other process can know that the tool did not start
		fault = envelope.NewError(envelope.CodeUnavailable, "the executor shut down before the tool was started")
	case errors.Is(cause, errDeadline):
		fault = envelope.NewError(envelope.CodeTimeout, "the tool was not started by the deadline")
	case errors.Is(cause, errKilled):
		fault = envelope.NewError(envelope.CodeCancelled, "")
	case isKnown:
		fault = known.Fault()
	}
	return unrunnable(fault.WithCause(err.Error()).WithEffect(envelope.EffectNone))
}

// failure maps the error of a run to the taxonomy. It returns nil for nil. The effect class is that of the call, which
// a policy may have made stricter. A call that has no effect in any case, such as a dry run, is classified as one of a
// pure tool.
func (j *job) failure(err error) *envelope.Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[envelope.Fault](err); ok {
		return known.Fault()
	}
	m := *j.manifest
	if m.Class = j.state.Class; j.state.HasNoEffect() {
		m.Class = call.Pure
	}
	return tool.ClassifyError(j.adapter, &m, err)
}

// outcome makes the completion and the draft of the response from the result of a run. A result that does not fit the
// response schema of the tool becomes an error.
func (e *Executor) outcome(
	ctx context.Context, j *job, m *tool.Manifest, res tool.Result, fault *envelope.Error,
) (call.Completion, outcome.Draft) {
	d := outcome.Draft{SideEffects: res.SideEffects, Warnings: res.Warnings, Metrics: res.Metrics}
	d.Metrics.DurationMS = e.Now().Sub(j.started).Milliseconds()
	d.Metrics.QueueMS = max(0, j.started.Sub(j.enqueued).Milliseconds())
	d.Timed = true
	end := call.Completion{Cause: call.ToolEnded, Effect: envelope.EffectApplied, Fence: j.fence}
	end.Writes = call.Writes(res.SideEffects)
	if violation := j.outside(end.Writes, fault); violation != nil {
		fault = violation
	} else if fault == nil {
		fault = e.checkOutput(ctx, j, m, res, &d)
	}
	if fault != nil {
		d.Error, end.Error, end.Effect = fault, fault.Code, fault.Details.Effect
		if end.Effect == "" {
			end.Effect = envelope.EffectUnknown
		}
		end.Output = e.keepResult(ctx, j, fault, &d)
		return end, d
	}
	sum := sha256.Sum256(res.Output)
	var digits [2 * sha256.Size]byte
	end.Output = string(hex.AppendEncode(digits[:0], sum[:]))
	return end, d
}

func (e *Executor) checkOutput(
	ctx context.Context, j *job, m *tool.Manifest, res tool.Result, d *outcome.Draft,
) *envelope.Error {
	fn, _ := m.Function(j.state.Fn)
	response := fn.Response
	switch bad := response.Validate(res.Output); {
	case len(bad) > 0 && envelope.IsMCPResult(response.Raw()):
		d.Warnings = append(slices.Clone(d.Warnings), broken(bad))
	case len(bad) > 0:
		return envelope.NewError(envelope.CodeOutput, "").WithViolations(bad...).WithEffect(envelope.EffectApplied)
	}
	if len(res.Output) <= envelope.MaxInline {
		d.Output = res.Output
		return nil
	}
	ctx, stop := e.storing(ctx, j)
	defer stop()
	ref, err := e.Payloads.Put(ctx, j.owner().On(j.state.Pool), res.Output)
	if err != nil { // Put retries until shortly before the deadline
		return envelope.NewError(envelope.CodeStoreFull, "the output is too large to travel inline and could not be stored").
			WithFix("call again later; the operator must enlarge the stream PAYLOADS").
			WithCause(err.Error()).WithEffect(envelope.EffectApplied)
	}
	d.OutputRef = &ref
	return nil
}

// broken returns the warning for an output that is returned although it does not fit its schema.
func broken(bad []jsonschema.Violation) string {
	text := "the output breaks the schema of the tool"
	for _, v := range bad[:min(len(bad), maxBroken)] {
		text += fmt.Sprintf("; %s %s", cmp.Or(v.Pointer, "it"), v.Message)
	}
	return ijson.Clip(text, envelope.MaxMessage)
}

// maxBroken is the number of violations that a warning names.
const maxBroken = 5

// find returns the admitted build of the tool, which take has made sure of, and its adapter.
func (e *Executor) find(j *job) (*tool.Manifest, tool.Adapter, *envelope.Error) {
	if j.unreadable != nil {
		return nil, nil, envelope.NewError(envelope.CodeVersion, "this executor cannot read the stored request").
			WithCause(j.unreadable.Error())
	}
	if fault := j.build.NeverRuns(); fault != nil {
		return nil, nil, fault
	}
	a, ok := e.Adapters[j.build.Transport]
	if !ok {
		return nil, nil, envelope.NewError(envelope.CodeUnavailable,
			"this executor has no adapter for transport "+j.build.Transport)
	}
	return j.build, a, nil
}

// invocation returns the invocation for the adapter. It reads a large input first.
func (e *Executor) invocation(ctx context.Context, j *job, m *tool.Manifest) (tool.Invocation, error) {
	input, done := j.work.input, (func())(nil)
	if j.inputRef != nil {
		data, err := e.fetch(ctx, j)
		if err != nil {
			return tool.Invocation{}, err
		}
		input, done = data, j.freeInput
	}
	a, _ := j.state.Attempt(j.attempt)
	j.fence = call.Fence(j.state, j.delivery)
	return tool.Invocation{
		CallID: a.Owner.CallID, ToolID: m.ToolID, ToolVersion: m.Semver, Digest: m.Digest,
		Fn: envelope.NameToCall(j.state.Fn), // clients of builds before AnyFunction send that name
		// The caller's key is unique only in its scope, the id among all calls.
		Input: input, Done: done, Context: listed(m.Context, j.work.context, a.Owner), IdempotencyKey: j.state.ID,
		Attempt: j.attempt, Fence: j.fence, DryRun: j.state.DryRun,
		Traceparent: j.traceparentOf(a.Owner),
		Deadline:    time.Now().Add(a.Due().Sub(e.Now())), // by the clock of this host, which tools use
	}, nil
}

// untilDue starts a timer.Run for the job, which ends at the attempt's deadline or by a kill, and stores it in *as. Its
// Deadline is that of the attempt: adapters pass it to supervisors, which enforce it even if this process is frozen.
func (e *Executor) untilDue(j *job, as **timer.Run) *timer.Run {
	a, _ := j.state.Attempt(j.attempt)
	run := j.shared.dog.Start(time.Now().Add(a.Due().Sub(e.Now())), j)
	j.mu.Lock()
	defer j.mu.Unlock()
	if *as = run; j.killed.Load() {
		run.Stop()
	}
	return run
}

// cause returns the reason why the context of the run has ended, or nil if it has not.
func (j *job) cause() error {
	err := j.run.Err()
	switch {
	case errors.Is(err, context.DeadlineExceeded) && j.ctx.Err() == nil:
		return errDeadline
	case errors.Is(err, context.Canceled) && j.killed.Load():
		return errKilled
	}
	return err
}

// storing returns a context for waits before and after a run, such as storing its output. It ends some time before the
// deadline, so that this executor can still decide the attempt with the right error. A dispatcher that decides at the
// deadline knows only that it timed out.
func (e *Executor) storing(ctx context.Context, j *job) (context.Context, context.CancelFunc) {
	a, _ := j.state.Attempt(j.attempt)
	left := a.Due().Sub(e.Now())
	return context.WithTimeout(ctx, left-min(left/8, time.Second/2))
}

// begun calls the hook Trace.Begin for the run of m, keeps its traceparent, and returns the context for it. If this
// executor cannot run the tool, m is nil.
func (e *Executor) begun(run *timer.Run, j *job, m *tool.Manifest) context.Context {
	if e.Trace.Begin == nil {
		return run
	}
	begin := call.TraceEvent{At: call.TraceRun, State: j.state, Attempt: j.attempt, Request: j.work.request()}
	if m != nil {
		begin.Effect, begin.Origin = m.CanonicalEffect(), m.Origin()
	}
	ctx, traceparent, done := e.Trace.Begin(run, begin)
	j.traceparent, j.observer = traceparent, done
	return ctx
}

// observed calls the end function of that hook, once. A verdict without a cause means that the run was left to another
// executor.
func (j *job) observed(v verdict) {
	if j.observer == nil {
		return
	}
	if v.end.Cause == 0 {
		v.draft.Error = envelope.NewError(envelope.CodeUnavailable, "the run was left to another executor")
	}
	j.observer(call.TraceEvent{At: call.TraceAfterEffect, State: j.state, Attempt: j.attempt, Error: v.draft.Error,
		Metrics: v.draft.Metrics})
	j.observer = nil
}
