package executor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Log is the call log. kv.Log implements it.
type Log = outcome.Log

// Catalog finds the tools that this executor can run.
type Catalog interface {
	// Get returns that version of a tool. If this executor has another version, it returns that with a refusal. If the
	// tool does not exist, the Manifest is nil.
	Get(id, version string) (*tool.Manifest, *envelope.Error)
	// Build returns the build of a tool with that digest, also one that was replaced, or nil.
	Build(id, digest string) *tool.Manifest
}

// Lease controls the acknowledgement of one work message. It does not prove that this executor owns the attempt.
type Lease interface {
	InProgress()                      // extend the time until the server delivers the message again
	Ack()                             // end the message: its attempt is decided
	NakWithDelay(after time.Duration) // return the message; the server delivers it again after that time
	NakUnstarted(after time.Duration) // NakWithDelay for a message that was not handled at all
	// TakeOver calls rest in a new goroutine, which replaces that of Handle, whose tool does not return. The message is
	// handled when rest returns. TakeOver does not block.
	TakeOver(rest func())
}

// Replier sends an outcome to a caller. The message may be lost: clients send the request again.
type Replier interface {
	Outcome(to call.ReplyAddress, r *envelope.Response)
}

// Stream takes the chunks of one run. Close waits until all are stored, and returns their count and digest.
type Stream interface {
	tool.Sink
	Close(ctx context.Context) (envelope.Chunks, error)
}

// Streams opens the stream of a run. The stream ends with ctx, the context of the run. limit is the largest size of all
// chunks in bytes.
type Streams interface {
	Open(ctx context.Context, s call.State, attempt int, fence uint64, limit int64) Stream
}

// Payloads stores and returns inputs and outputs that are too large to be inline.
type Payloads interface {
	Put(ctx context.Context, of subjects.PayloadOwner, data []byte) (envelope.PayloadRef, error)
	Get(ctx context.Context, of subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error)
}

// Liveness reports whether the heartbeat of an executor instance has expired.
type Liveness interface {
	Expired(ctx context.Context, instance string) bool
}

// RecordSink stores facts that the call log does not hold: dead letters, and results of runs that came too late.
type RecordSink interface {
	// Dead stores the dead letter of a call. s is its current state, and m its work message.
	Dead(ctx context.Context, s call.State, m call.Entry, deliveries int, cause *envelope.Error) error
	LateResult(ctx context.Context, s call.State, attempt int, said call.Completion) error
}

// Watermark tracks which events of the call log are in the audit record.
type Watermark interface {
	// Wait waits until the audit record holds the event that was stored at a position and time. The error is the cause of
	// the end of ctx, or means that the record cannot be read.
	Wait(ctx context.Context, p call.Position, at time.Time) error
}

// Options configures an [Executor]. Locks, PayloadMemory, Trace and Logger are optional; the other fields are required.
type Options struct {
	Instance  string // unique per start of a process
	Catalog   Catalog
	Adapters  map[string]tool.Adapter
	CallLog   Log
	Replies   Replier
	Streams   Streams
	Payloads  Payloads
	Liveness  Liveness
	Records   RecordSink
	Watermark Watermark
	Locks     *lock.Board      // nil: no call is ever locked
	Now       func() time.Time // bus time
	NewNonce  func() string
	// Question opens a question to the caller of a running call, and calls take with the body of each answer until close.
	// nil means that callers are not asked.
	Question func(take func(body []byte)) (id string, close func())
	Lease    time.Duration // see bus.DefaultLease
	// PayloadMemory is the memory, in bytes, for large inputs until their tools have read them; others wait. Default 128
	// MiB.
	PayloadMemory int64
	Trace         call.Trace
	Logger        *slog.Logger // nil discards
}

// Executor runs the calls of work messages. Make one with [New]. Its methods are safe for concurrent use. The caller of
// Handle limits the number of concurrent runs.
type Executor struct {
	Options
	notices  format.Notices
	jobs     jobs
	kills    kills
	presence presence
	outcomes outcomes
	memory   *flow.MemoryBudget // for large inputs
	missing  *missingBuilds
	gate     gate
}

// New returns an Executor.
func New(o Options) *Executor {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	e := &Executor{
		Options: o, jobs: newJobs(), presence: presence{lease: o.Lease},
		memory: flow.NewMemoryBudget(o.PayloadMemory, 0, 0), missing: newMissingBuilds(),
	}
	e.outcomes.Options = &e.Options
	e.kills = newKills(&e.Options, &e.jobs)
	return e
}

// Message is a work message: the stored request event, and its lease.
type Message struct {
	Entry      call.Entry
	Deliveries int // number of deliveries, from 1
	Lease      Lease
}

// Delays after which a returned message is delivered again.
const (
	retryDelay = 250 * time.Millisecond // times the number of deliveries: the log could not be reached
	retryMost  = 2 * time.Second        // largest delay for that reason
	buildDelay = 50 * time.Millisecond  // times the number of deliveries: the admitted build is not here
	buildMost  = 2 * time.Second        // largest delay for that reason; without it, executors pass work on in a busy loop
	newerDelay = time.Second            // a newer build wrote the log
)

// Handle handles one work message: it claims the attempt if the effect class requires that, runs the tool, and decides
// the attempt. When it returns, the message is acknowledged, because its attempt has an outcome or its log is gone, or
// it is returned to the server.
func (e *Executor) Handle(ctx context.Context, m Message) {
	defer e.recoverPanic(m)
	j := e.newJob(ctx, m)
	if again, err := e.jobs.add(j, e.Now()); err != nil {
		e.Trace.Emit(ctx, call.TraceNak, &m.Entry.State, m.Entry.Attempt)
		if errors.Is(err, errBusy) {
			m.Lease.NakUnstarted(again)
			return
		}
		m.Lease.NakWithDelay(e.Lease)
		return
	}
	e.conclude(j, false, func() error {
		j.step(call.TraceTaken)
		step, err := e.take(j)
		if err != nil {
			return err
		}
		return e.follow(j, step)
	})
}

// conclude calls do for a message, and acknowledges or returns the message. If the tool is abandoned meanwhile, another
// goroutine owns the message: it calls conclude with again set, and this call does nothing more.
func (e *Executor) conclude(j *job, again bool, do func() error) {
	ours := func() bool { return again || !j.control.abandoned.Load() }
	defer func() {
		if ours() {
			e.end(j)
		}
	}()
	if err := do(); ours() {
		e.acknowledge(j, err)
	}
}

func (e *Executor) acknowledge(j *job, err error) {
	deliveries := time.Duration(max(1, j.message.Deliveries))
	_, damaged := errors.AsType[*call.DamagedError](err)
	switch {
	case damaged: // nobody may decide the attempt; dispatchers answer its callers
		e.Logger.Error("a call is given up", "call", j.state.ID, "attempt", j.attempt, "err", err)
		j.step(call.TraceBeforeAck)
		j.message.Lease.Ack()
	case err == nil, errors.Is(err, outcome.ErrAttemptGone), errors.Is(err, outcome.ErrUnreadable):
		if errors.Is(err, outcome.ErrUnreadable) { // the attempt is decided; dispatchers answer its callers
			e.Logger.Error("the outcome that another stored cannot be read", "call", j.state.ID, "attempt", j.attempt,
				"err", err)
		}
		j.step(call.TraceBeforeAck)
		j.message.Lease.Ack()
	case errors.Is(err, errUnrecorded), errors.Is(err, errUnlocked), errors.Is(err, errCrowded),
		errors.Is(err, lock.ErrStale):
		j.step(call.TraceNak)
		j.message.Lease.NakUnstarted(retryDelay)
	case errors.Is(err, errOtherBuild):
		j.nak(min(deliveries*buildDelay, buildMost))
	case errors.Is(err, errWait):
		j.nak(e.Lease / 4)
	case format.Newer(err):
		e.notices.Log(e.Logger, "work handed to executors of a newer build", err)
		j.nak(newerDelay)
	default:
		e.Logger.Warn(j.handedBack(), "ref", j.message.Entry.State.Ref(), "attempt", j.attempt, "err", err)
		j.nak(min(deliveries*retryDelay, retryMost))
	}
}

// end removes a message that was acknowledged or returned.
func (e *Executor) end(j *job) {
	j.run.close(verdict{})
	j.control.stop()
	e.gate.leave(j)
	e.jobs.remove(j, e.Now())
}

// errWait means that another executor runs the attempt.
var errWait = errors.New("claimed by a live executor")

// follow carries out the step that take returned.
func (e *Executor) follow(j *job, step call.NextStep) error {
	switch {
	case j.locked != nil:
		return e.settle(j, lockedVerdict(j, step))
	case step == call.Run:
		return e.settle(j, j.run.execute())
	case step == call.Adopt:
		return e.outcomes.deliver(j)
	case step == call.Expire:
		return e.settle(j, expired(j))
	case step == call.WaitClaim:
		return errWait
	case step == call.AskTool:
		return e.settle(j, j.run.lookup())
	case step == call.DeadLetter:
		return e.settle(j, e.deadLetter(j))
	}
	return outcome.ErrAttemptGone // Drop
}

// settle ends the attempt with the verdict. If the verdict has an error, it decides nothing and returns the error.
// After tool.ErrAbandoned another goroutine owns the job.
func (e *Executor) settle(j *job, v verdict) error {
	if errors.Is(v.err, tool.ErrAbandoned) {
		return v.err
	}
	if j.run.close(v); v.err != nil {
		return v.err
	}
	return e.outcomes.decide(j, v)
}

// deadLetter stores the dead letter of a poison call, whose attempt is then decided as lost. Both name the same effect.
func (e *Executor) deadLetter(j *job) verdict {
	cause := envelope.NewError(envelope.CodeLost, "")
	end := call.Completion{Cause: call.Poisoned}
	if r := call.Decide(j.state, j.attempt, j.delivery.Admitted, end); r.Do {
		cause.WithEffect(r.Effect)
	}
	err := e.Records.Dead(j.ctx, j.state, j.message.Entry, j.message.Deliveries, cause)
	return verdict{end, outcome.Draft{Error: cause}, err}
}

// InProgress extends the leases of all messages that are being handled. Call it every third of a lease.
func (e *Executor) InProgress() {
	for _, l := range e.jobs.leases() {
		l.InProgress()
	}
}

// recoverPanic must be deferred. If handling the message panicked, it logs the stack and returns the message to the
// server. The call continues as if this executor had died: it runs again if its class allows that, becomes a poison
// call after MaxDeaths deaths, and has an unknown effect if it is side-effectful and was claimed.
func (e *Executor) recoverPanic(m Message) {
	p := recover()
	if p == nil {
		return
	}
	e.Logger.Error("panic", "call", m.Entry.State.ID, "attempt", m.Entry.Attempt, "panic", p,
		"stack", string(debug.Stack()))
	m.Lease.NakWithDelay(retryDelay)
}
