package executor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// run is one run of a tool for a job, or one lookup, from the search for its adapter to its verdict. The owner of the
// job owns it.
type run struct {
	*Options
	memory *flow.MemoryBudget // for large inputs
	job    *job

	manifest    *tool.Manifest // nil if the tool cannot run here
	adapter     tool.Adapter
	context     *timer.Run // nil before the start
	phase       phase
	fence       uint64
	started     time.Time         // bus time of the start of the tool; before it, of the admission
	began       time.Time         // local time of the start of the tool, with the monotonic clock
	input       *flow.Reservation // of a large input in memory; nil without one
	chunks      chunkSink
	traceparent string                // of the run's span; "" if no exporter is configured
	observer    func(call.TraceEvent) // called when the run ends; may be nil
}

// phase is the question that an adapter is asked. After the adapter has abandoned a run, it selects the verdict.
type phase int

const (
	executes  phase = iota // the tool runs
	validates              // whether the adapter refuses the call: the tool has not started
	looksUp                // the lookup of the tool
)

// execute runs the tool until it ends, its deadline passes or it is killed. Then the tool and all its processes are
// gone, except if its adapter has abandoned it: then the error of the verdict is tool.ErrAbandoned.
func (r *run) execute() verdict {
	fault := r.find()
	ctx := r.observe(r.start())
	if fault != nil {
		return unrunnable(fault)
	}
	inv, err := r.invocation(ctx)
	if err == nil {
		err = cmp.Or(ctx.Err(), r.checkLock(ctx))
	}
	if err != nil {
		return r.unprepared(err)
	}
	if err := r.validate(ctx, inv); errors.Is(err, tool.ErrAbandoned) {
		return verdict{err: err}
	} else if err != nil {
		return r.denied(ctx, err)
	}
	if err := cmp.Or(ctx.Err(), r.checkLock(ctx)); err != nil { // the adapter took time, or this process was frozen
		return r.unprepared(err)
	}
	r.chunks = chunkSink{run: r}
	r.started, r.began = r.Now(), time.Now()
	r.job.control.start(r.started)
	r.job.step(call.TraceBeforeEffect)
	inv.Report = r.reports(ctx)
	res, err := r.adapter.Execute(ctx, r.manifest, inv, &r.chunks)
	if errors.Is(err, tool.ErrAbandoned) {
		return verdict{err: err}
	}
	return r.returned(res, err)
}

// lookup asks the lookup of the tool about a side-effectful attempt whose executor is gone. The lookup may confirm the
// effect; that it finds nothing proves nothing.
func (r *run) lookup() verdict {
	if r.job.state.Lookup == call.LookupNo {
		return unconfirmed(call.LookupUndeclared, nil)
	}
	if fault := r.find(); fault != nil {
		return unconfirmed(call.LookupFailed, fault)
	}
	if !r.manifest.Capability.Lookup {
		return unconfirmed(call.LookupUndeclared, nil)
	}
	r.phase = looksUp
	ctx := r.start()
	inv, err := r.invocation(ctx)
	var res tool.Result
	found := false
	if err == nil {
		res, found, err = r.adapter.Lookup(ctx, r.manifest, inv)
	}
	if errors.Is(err, tool.ErrAbandoned) {
		return verdict{err: err}
	}
	return r.confirmed(res, found, err)
}

// find sets the admitted build of the tool, which take has made sure of, and its adapter.
func (r *run) find() *envelope.Error {
	j := r.job
	if j.unreadable != nil {
		return envelope.NewError(envelope.CodeVersion, "this executor cannot read the stored request").
			WithFix("replace the executors of the pool by the build of the dispatchers, then call again with a new key").
			WithCause(j.unreadable.Error())
	}
	if fault := j.build.NeverRuns(); fault != nil {
		return fault
	}
	a, ok := r.Adapters[j.build.Transport]
	if !ok {
		return envelope.NewError(envelope.CodeUnavailable, "this executor has no adapter for transport "+j.build.Transport)
	}
	r.manifest, r.adapter = j.build, a
	return nil
}

// start starts the context of the run.
func (r *run) start() *timer.Run {
	r.context = r.job.untilDue(&r.job.control.tool)
	return r.context
}

// validate asks the adapter whether it refuses the call.
func (r *run) validate(ctx context.Context, inv tool.Invocation) error {
	r.phase = validates
	err := tool.ValidateCall(ctx, r.adapter, r.manifest, inv)
	if !errors.Is(err, tool.ErrAbandoned) { // otherwise another goroutine owns the run
		r.phase = executes
	}
	return err
}

// abandoned returns the verdict of a run that its adapter has abandoned with err.
func (r *run) abandoned(err error) verdict {
	switch r.phase {
	case looksUp:
		return r.confirmed(tool.Result{}, false, err)
	case validates:
		return r.denied(r.context, err)
	default:
		return r.returned(tool.Result{}, err)
	}
}

// unprepared returns the verdict of an attempt whose tool was not started, usually because its input could not be read.
// The effect is none, so an attempt that timed out or was cancelled may run again.
func (r *run) unprepared(err error) verdict {
	fault := envelope.NewError(envelope.CodeInputMissing, "")
	known, isKnown := errors.AsType[envelope.Fault](err)
	cause := r.cause()
	switch shutDown := r.job.ctx.Err() != nil; {
	case shutDown && r.job.claim == "":
		return verdict{err: errDrained}
	case shutDown: // from the claim alone, no other process can know that the tool did not start
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

// denied returns the verdict of an attempt that its adapter refused with err, or did not answer for before ctx ended.
// This run had no effect. [call.Decide] knows whether another one may have had one.
func (r *run) denied(ctx context.Context, err error) verdict {
	if ctx.Err() != nil {
		return r.unprepared(err)
	}
	return unrunnable(r.harmless(err))
}

// harmless returns the error of a check or a lookup, which change nothing.
func (r *run) harmless(err error) *envelope.Error {
	m := *r.manifest
	m.Class = call.Pure
	return tool.ClassifyError(r.adapter, &m, err).WithEffect(envelope.EffectNone)
}

// returned makes the verdict from what a run has returned, or, for an abandoned run, from what its adapter returned in
// its place.
func (r *run) returned(res tool.Result, err error) verdict {
	r.job.step(call.TraceAfterEffect)
	stored, streamErr := r.chunks.stored()
	if err == nil && streamErr != nil {
		err = streamErr
	}
	v := r.result(res, r.failure(err))
	if cause := r.cause(); err != nil && cause != nil {
		v.end.Cause = interrupted(cause, v.end.Cause)
	}
	v.draft.Chunks = stored
	v.draft.Warnings = r.chunks.warn(v.draft.Warnings)
	if err != nil && r.job.ctx.Err() != nil {
		return r.drained(v, err)
	}
	return v
}

// confirmed makes the verdict from the result of a lookup.
func (r *run) confirmed(res tool.Result, found bool, err error) verdict {
	switch {
	case err != nil && r.job.ctx.Err() != nil:
		return verdict{err: errDrained} // another executor can do the lookup
	case err != nil:
		return unconfirmed(call.LookupFailed, r.harmless(err))
	case !found:
		return unconfirmed(call.LookupAbsent, nil)
	}
	v := r.result(res, nil)
	v.draft.Timed = false // the times of the run are not known here
	if v.end.Error == "" {
		v.end.Cause = call.Confirmed
		v.draft.Warnings = append(slices.Clip(v.draft.Warnings), call.FoundByLookup)
	}
	return v
}

// cause returns the reason why the context of the run has ended, or nil if it has not.
func (r *run) cause() error {
	err := r.context.Err()
	switch {
	case errors.Is(err, context.DeadlineExceeded) && r.job.ctx.Err() == nil:
		return errDeadline
	case errors.Is(err, context.Canceled) && r.job.control.killed.Load():
		return errKilled
	}
	return err
}

// beforeDue returns a context for waits before and after a run, such as storing its output. It ends some time before
// the deadline, so that this executor can still decide the attempt with the right error. A dispatcher that decides at
// the deadline knows only that it timed out.
func (r *run) beforeDue(ctx context.Context) (context.Context, context.CancelFunc) {
	left := r.job.current().Due().Sub(r.Now())
	return context.WithTimeout(ctx, left-min(left/8, time.Second/2))
}

// observe calls the hook Trace.Begin, keeps its traceparent, and returns the context for the run.
func (r *run) observe(ctx context.Context) context.Context {
	if r.Trace.Begin == nil {
		return ctx
	}
	begin := call.TraceEvent{
		At: call.TraceRun, State: r.job.state, Attempt: r.job.attempt, Request: r.job.work.request(),
	}
	if r.manifest != nil {
		begin.Effect, begin.Origin = r.manifest.CanonicalEffect(), r.manifest.Origin()
	}
	ctx, r.traceparent, r.observer = r.Trace.Begin(ctx, begin)
	return ctx
}

// reports returns what takes the reports of the tool, or nil if nobody wants them. ctx has the span of the run.
func (r *run) reports(ctx context.Context) func(tool.Report) {
	if r.Trace.Event == nil {
		return nil
	}
	emit, of := r.Trace.Event, reporter{manifest: r.manifest}
	e := call.TraceEvent{At: call.TraceReported, State: r.job.state, Attempt: r.job.attempt}
	return func(said tool.Report) {
		e.Report = of.check(said)
		emit(ctx, e)
	}
}

// close frees the memory of a large input, and calls the end function of the trace hook, once. A verdict without a
// cause means that the run was left to another executor.
func (r *run) close(v verdict) {
	r.freeInput()
	if r.observer == nil {
		return
	}
	if v.end.Cause == 0 {
		v.draft.Error = envelope.NewError(envelope.CodeUnavailable, "the run was left to another executor")
	}
	r.observer(call.TraceEvent{
		At: call.TraceAfterEffect, State: r.job.state, Attempt: r.job.attempt, Error: v.draft.Error, Metrics: v.draft.Metrics,
	})
	r.observer = nil
}
