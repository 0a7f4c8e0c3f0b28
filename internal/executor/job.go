package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// job is one work message, from its receipt until it is acknowledged or returned. The goroutine of Handle owns it, or
// the one that replaces it when the tool is abandoned. Other goroutines use only control.
type job struct {
	executor     *Executor
	ctx          context.Context // ends when the executor shuts down, not at the deadline
	shared       sharedContext   // of ctx
	message      Message
	state        call.State
	attempt      int
	delivery     call.WorkDelivery
	claim        string // nonce of our claim; "" without one
	work         work
	unreadable   error // why work is empty
	inputRef     *envelope.PayloadRef
	writeTargets call.WriteTargets // of the call
	earlier      []call.Outcome    // empty if the body cannot be read
	recorded     bool              // the audit record holds the request
	build        *tool.Manifest    // the admitted build of the tool; nil if it is not here
	counted      bool              // among the concurrent runs of the tool
	locked       *envelope.Lock    // stops the call; nil without one
	inside       bool              // of the gate
	run          run               // by value: a run needs no allocation of its own
	control      control
}

// newJob returns the job of a message. After its deadline an attempt needs no tool, so newJob does not look for it.
func (e *Executor) newJob(ctx context.Context, m Message) *job {
	body, w, err := parse(m.Entry)
	if err != nil { // a newer build admitted it
		e.Logger.Error("unreadable work message", "call", m.Entry.State.ID, "err", err)
	}
	j := &job{
		executor: e, ctx: ctx, message: m, state: m.Entry.State, attempt: m.Entry.Attempt, work: w, unreadable: err,
		earlier: body.Earlier, inputRef: envelope.ParsePayloadRef(body.InputRef),
		delivery: call.WorkDelivery{
			Attempt: m.Entry.Attempt, Admitted: m.Entry.State.Seq, Deliveries: m.Deliveries,
			By: e.Instance, Nonce: e.NewNonce(),
			// If this executor has a claim but no job, the run ended without a decision.
			Gone: func(instance string) bool { return instance == e.Instance || e.Liveness.Expired(ctx, instance) },
		},
	}
	j.writeTargets = j.current().Targets(body.WriteTargets)
	j.run = run{Options: &e.Options, memory: e.memory, job: j, started: j.enqueued()}
	if j.current().Due().After(e.Now()) {
		j.build = e.admitted(j.state)
	}
	return j
}

// key returns the key of the job in jobs. It uses the message, because the state of a log that is gone has no id.
func (j *job) key() call.AttemptKey {
	return call.AttemptKey{ID: j.message.Entry.State.ID, N: j.attempt}
}

// tool returns the id of the tool, the key of its load.
func (j *job) tool() string { return j.message.Entry.State.Tool }

// enqueued returns the bus time of the admission.
func (j *job) enqueued() time.Time { return j.message.Entry.Time }

// current returns the attempt of the job as the state holds it; the zero value if it does not.
func (j *job) current() call.Attempt {
	a, _ := j.state.Attempt(j.attempt)
	return a
}

// owner returns the owner of the large input and output of the job.
func (j *job) owner() subjects.Owner {
	return subjects.Owner{Tenant: j.state.Tenant, Actor: j.current().Owner.Actor}
}

// step emits a trace point.
func (j *job) step(at call.TracePoint) { j.executor.Trace.Emit(j.ctx, at, &j.state, j.attempt) }

// nak returns the message to the server, which delivers it again after that time.
func (j *job) nak(after time.Duration) {
	j.step(call.TraceNak)
	j.message.Lease.NakWithDelay(after)
}

// untilDue starts a timer.Run, which ends at the attempt's deadline or by a kill, and stores it in *as, a field of
// control. Its Deadline is that of the attempt: adapters pass it to supervisors, which enforce it even if this process
// is frozen.
func (j *job) untilDue(as **timer.Run) *timer.Run {
	run := j.shared.dog.Start(time.Now().Add(j.current().Due().Sub(j.executor.Now())), j)
	j.control.mu.Lock()
	defer j.control.mu.Unlock()
	if *as = run; j.control.killed.Load() {
		run.Stop()
	}
	return run
}

// Abandoned implements [timer.Owner]: the tool does not return, and its message is handled without it.
func (j *job) Abandoned(end func() error) {
	j.control.abandoned.Store(true)
	j.message.Lease.TakeOver(func() {
		e := j.executor
		defer e.recoverPanic(j.message)
		e.conclude(j, true, func() error { return e.settle(j, j.run.abandoned(end())) })
	})
}

// control is the part of a job that other goroutines use: they end its run, and see whether its tool runs. It is safe
// for concurrent use.
type control struct {
	abandoned atomic.Bool // the tool did not return: another goroutine owns the job
	killed    atomic.Bool // the attempt is decided in the log, so the run must end

	mu      sync.Mutex
	tool    *timer.Run // of the tool, or of the wait for the audit record; nil before
	stream  *timer.Run // stores the chunks of the tool; nil before the first
	running bool
	since   time.Time // when the tool started
}

// kill ends the run. If it has not begun, it ends at once when it begins.
func (c *control) kill() {
	c.killed.Store(true)
	c.stop()
}

// stop ends the contexts of the job.
func (c *control) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range []*timer.Run{c.tool, c.stream} {
		if run != nil {
			run.Stop()
		}
	}
}

// start records that the tool was started at a bus time.
func (c *control) start(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.since = true, now
}

// started returns the bus time at which the tool was started. ok is false if it was not.
func (c *control) started() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.running
}

// work is the request of a work message. A dispatcher has checked it, so it is not decoded again: the tool gets two of
// its members unchanged, and all other facts are in the log.
type work struct {
	all, input, context jsontext.Value
}

// request decodes the request for the trace hooks, without unknown members.
func (w work) request() *envelope.Request {
	req := new(envelope.Request)
	if err := json.Unmarshal(w.all, req); err != nil {
		return new(envelope.Request)
	}
	return req
}

// parse reads a work message.
func parse(entry call.Entry) (body call.RequestBody, w work, err error) {
	request, ok := call.OnlyRequest(entry.Body)
	if body.Request = request; !ok || !ijson.Valid(request) {
		if body, err = call.DecodeRequestBody(entry.Body); err != nil {
			return body, w, fmt.Errorf("work message: %w", err)
		}
	}
	if w.all = body.Request; w.all.Kind() != '{' {
		return body, w, errors.New("work message: the request is no object")
	}
	w.split()
	return body, w, nil
}

// split sets input and context, the members that the tool gets.
func (w *work) split() {
	v := w.all
	for i := ijson.SkipSpace(v, 0) + 1; i < len(v); i++ {
		if v[i] != '"' {
			continue // between two members, or after the last one
		}
		name := v[i : i+ijson.StringLen(v[i:])]
		i = ijson.SkipSpace(v, i+len(name)) + 1 // the colon
		i = ijson.SkipSpace(v, i)
		value := v[i : i+ijson.ValueLen(v[i:])]
		switch string(name) {
		case `"input"`:
			w.input = value
		case `"context"`:
			w.context = value
		}
		i += len(value) - 1
	}
}

// errUnlocked means that a lock was cleared after the message was received. The message was not counted among the runs
// of the tool, so it must be received again.
var errUnlocked = errors.New("the lock that stopped the call has been cleared")

// stopped reports whether a lock that is known here stops the call.
func (j *job) stopped() bool {
	lane := j.current().Owner.Lane
	locks, _, err := j.executor.Locks.Known()
	return err == nil && slices.ContainsFunc(locks, func(l envelope.Lock) bool { return l.Covers(j.state.Tool, lane) })
}

// checkLock sets j.locked if a lock stops the call.
func (j *job) checkLock() (err error) {
	if j.locked, err = j.findLock(j.ctx); err == nil && j.locked == nil && !j.counted {
		return errUnlocked
	}
	return err
}

// findLock returns the safety lock that stops the call, or nil. The error is [lock.ErrStale], or that of ctx.
func (j *job) findLock(ctx context.Context) (*envelope.Lock, error) {
	return j.executor.Locks.Find(ctx, j.state.Tool, j.current().Owner.Lane)
}

// lockedVerdict ends an attempt that a lock stops before the given step. On a first delivery no executor can have
// started it. Otherwise its effect is what the log proves. If the executor that claimed it is gone, the lookup of the
// tool is not asked, either.
func lockedVerdict(j *job, step call.NextStep) verdict {
	fault := lock.Refusal(j.locked)
	if step == call.AskTool {
		return unconfirmed(call.LookupLocked, fault)
	}
	v := verdict{
		end:   call.Completion{Cause: call.Unrunnable, Error: fault.Code, Effect: envelope.EffectNone},
		draft: outcome.Draft{Error: fault},
	}
	if j.delivery.Deliveries > 1 {
		v.end.Effect = envelope.EffectUnknown
	}
	return v
}

// checkLock returns nil if no lock stops the call now: one may have been set while the run was prepared. It waits
// until this executor knows which locks are in force, or ctx ends.
func (r *run) checkLock(ctx context.Context) error {
	for {
		l, err := r.job.findLock(ctx)
		switch {
		case l != nil:
			return faultError{lock.Refusal(l)}
		case !errors.Is(err, lock.ErrStale):
			return err
		}
	}
}
