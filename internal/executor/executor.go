package executor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/timer"
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
	Lease     time.Duration // see bus.DefaultLease
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
	notices       format.Notices
	mu            sync.Mutex
	running       map[call.AttemptKey]*job
	loads         map[string]*load              // of tools that run, or that messages wait for
	killed        map[call.AttemptKey]time.Time // kills of attempts that are not here, by key, until their deadline
	forgot        time.Time                     // kills received before this time may have been dropped
	doubts        map[*job]bool                 // jobs for which a kill was received and Confirm must read the log
	doubted       chan struct{}                 // signals that doubts is not empty
	forged        flow.Dropped                  // kills that the log did not confirm
	shared        sharedContext                 // of the newest message
	since         time.Time                     // no kill was missed since this time; zero: any may have been
	inputMemory   *flow.MemoryBudget            // for large inputs
	missing       *missingBuilds
	heartbeatSent time.Time // bus time at which the newest stored heartbeat was sent; zero: none yet
}

// New returns an Executor.
func New(o Options) *Executor {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Executor{
		Options: o, running: map[call.AttemptKey]*job{}, loads: map[string]*load{}, killed: map[call.AttemptKey]time.Time{},
		doubts: map[*job]bool{}, doubted: make(chan struct{}, 1),
		inputMemory: flow.NewMemoryBudget(o.PayloadMemory, 0, 0), missing: newMissingBuilds(),
	}
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
	busyDelay  = 50 * time.Millisecond  // smallest delay if the tool has reached its concurrency here
	busySpace  = time.Millisecond       // time between messages that wait for the same tool
	busyMost   = 2 * time.Second        // largest delay for that reason
	newerDelay = time.Second            // a newer build wrote the log
)

// Handle handles one work message: it claims the attempt if the effect class requires that, runs the tool, and decides
// the attempt. When it returns, the message is acknowledged, because its attempt has an outcome or its log is gone, or
// it is returned to the server.
func (e *Executor) Handle(ctx context.Context, m Message) {
	defer e.unharmed(m)
	j, notYet := e.begin(ctx, m)
	if j == nil {
		e.Trace.Emit(ctx, call.TraceNak, &m.Entry.State, m.Entry.Attempt)
		notYet()
		return
	}
	e.conclude(j, false, func() error {
		e.step(call.TraceTaken, j)
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
	ours := func() bool { return again || !j.abandoned.Load() }
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
	switch {
	case err == nil, errors.Is(err, outcome.ErrAttemptGone), errors.Is(err, outcome.ErrUnreadable):
		if errors.Is(err, outcome.ErrUnreadable) { // the attempt is decided; dispatchers answer its callers
			e.Logger.Error("the outcome that another stored cannot be read", "call", j.state.ID, "attempt", j.attempt,
				"err", err)
		}
		e.step(call.TraceBeforeAck, j)
		j.message.Lease.Ack()
	case errors.Is(err, errUnrecorded), errors.Is(err, errUnlocked), errors.Is(err, lock.ErrStale):
		e.step(call.TraceNak, j)
		j.message.Lease.NakUnstarted(retryDelay)
	case errors.Is(err, errOtherBuild):
		e.passOn(j)
	case errors.Is(err, errWait):
		e.nak(j, e.Lease/4)
	case format.Newer(err):
		e.notices.Log(e.Logger, "work handed to executors of a newer build", err)
		e.nak(j, newerDelay)
	default:
		e.Logger.Warn("nak", "call", j.state.ID, "attempt", j.attempt, "err", err)
		e.nak(j, min(time.Duration(max(1, j.message.Deliveries))*retryDelay, retryMost))
	}
}

func (e *Executor) nak(j *job, after time.Duration) {
	e.step(call.TraceNak, j)
	j.message.Lease.NakWithDelay(after)
}

// errWait means that another executor runs the attempt.
var errWait = errors.New("claimed by a live executor")

// follow carries out the step that take returned.
func (e *Executor) follow(j *job, step call.NextStep) error {
	switch {
	case j.locked != nil:
		return e.endLocked(j, step)
	case step == call.Run:
		return e.run(j)
	case step == call.Adopt:
		return e.deliver(j)
	case step == call.Expire:
		// On a first delivery no other executor can have started the attempt, and a later delivery is past the deadline as
		// well.
		end := call.Completion{Cause: call.TimedOut, NotTaken: j.delivery.Deliveries <= 1, Stored: call.At(j.enqueued)}
		return e.finish(j, end, outcome.Draft{})
	case step == call.WaitClaim:
		return errWait
	case step == call.AskTool:
		return e.confirm(j)
	case step == call.DeadLetter:
		return e.deadLetter(j)
	}
	return outcome.ErrAttemptGone // Drop
}

// take returns the next step, and writes the claim if the step requires one. If a lock stops the call, it sets j.locked
// and writes no claim. The error is errOtherBuild if the step needs the admitted build of the tool and this executor
// does not have it, and lock.ErrStale if it does not know which locks are in force. On a first delivery it uses the
// state in the message and does not read the log: the next compare-and-set proves that state. If it is not certain that
// the delivery is the first one (a server that was killed forgets its counts), take treats it as a second delivery: it
// claims before the run, so that every run has a fence of its own.
func (e *Executor) take(j *job) (call.NextStep, error) {
	if err := e.lookUp(j); err != nil {
		return 0, err
	}
	for {
		// The clocks differ: an attempt that the server stored after its deadline must not start.
		j.delivery.Now = max(call.At(e.Now()), call.At(j.enqueued))
		step, claim := call.Take(j.state, j.delivery)
		if j.build == nil && j.needsBuild(step) {
			return 0, errOtherBuild
		}
		if (step == call.Run || step == call.TakeClaim) && j.unrecorded() {
			if err := e.waitRecorded(j); err != nil {
				return 0, err
			}
			continue
		}
		if j.needsBuild(step) {
			if err := e.checkLock(j); err != nil || j.locked != nil {
				return step, err
			}
		}
		if step != call.TakeClaim {
			return step, nil
		}
		e.step(call.TraceBeforeClaim, j)
		after, err := e.CallLog.Write(j.ctx, claim, nil)
		var moved *call.ConflictError
		switch {
		case err == nil:
			j.state, j.claim = after, j.delivery.Nonce
			e.step(call.TraceAfterClaim, j)
		case errors.As(err, &moved):
			j.state = moved.State
		default:
			return 0, err
		}
	}
}

// lookUp reads the log of a message that may have been delivered before, or for which a kill was received. A kill alone
// does not make the delivery a second one.
func (e *Executor) lookUp(j *job) error {
	again := j.delivery.Deliveries > 1 || e.mayHaveStarted(j)
	if !again && !e.heard(j) && !j.killed.Load() {
		return nil
	}
	last, err := e.CallLog.Read(j.ctx, j.state.Tool, j.state.ID)
	if err != nil {
		return err
	}
	if j.state = last.State; again {
		j.delivery.Deliveries = max(2, j.delivery.Deliveries)
	}
	return nil
}

// decideTime is the time in which an executor that shuts down may still write the result of a run that has ended.
const decideTime = 10 * time.Second

// sharedContext holds the context of Handle, and what is derived from it once for all messages with the same context.
type sharedContext struct {
	ctx    context.Context
	longer context.Context // ends decideTime after ctx
	dog    *timer.Watchdog
}

// under returns the sharedContext of ctx. Callers hold e.mu.
func (e *Executor) under(ctx context.Context) sharedContext {
	if e.shared.ctx != ctx {
		longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, func() { time.AfterFunc(decideTime, cancel) })
		e.shared = sharedContext{ctx, longer, timer.NewWatchdog(ctx)}
	}
	return e.shared
}

// finish decides the attempt, and sends the outcome in the log to the caller.
func (e *Executor) finish(j *job, end call.Completion, d outcome.Draft) error {
	end.By, end.Nonce, end.Now, end.Claim = call.ByExecutor, e.NewNonce(), call.At(e.Now()), j.claim
	e.step(call.TraceBeforeDecide, j)
	ctx := j.shared.longer
	d.Owner = e.ownerOf(j)
	a, _ := j.state.Attempt(j.attempt)
	o, err := e.decide(ctx, j, end, d.WithIgnoredWarnings(a))
	unreadable := errors.Is(err, outcome.ErrUnreadable)
	if err != nil && !unreadable {
		return err
	}
	j.state = o.State
	e.step(call.TraceAfterDecide, j)
	e.logOutcome(ctx, j, o)
	if !o.Won && late(o.State, end, o.Attempt.Decision) {
		if err := e.Records.LateResult(ctx, o.State, j.attempt, end); err != nil {
			return err
		}
	}
	if unreadable {
		return err
	}
	e.reply(j, o)
	return nil
}

// ownerOf returns the owner of the tool of a further attempt, or "" if this executor does not have the tool.
func (e *Executor) ownerOf(j *job) string {
	if j.attempt == 1 {
		return "" // nobody needs it, see outcome.Draft
	}
	m, _ := e.Catalog.Get(j.state.Tool, j.state.Version)
	if m == nil {
		return ""
	}
	return m.Owner
}

// logOutcome logs the outcome in the log with level INFO, even if another process decided.
func (e *Executor) logOutcome(ctx context.Context, j *job, o outcome.Stored) {
	if e.Logger.Enabled(ctx, slog.LevelInfo) {
		d := o.Attempt.Decision
		e.Logger.InfoContext(ctx, "ended", "tool", j.state.Tool, "version", j.state.Version, "call", j.state.ID,
			"attempt", j.attempt, "status", d.Status, "code", d.Code,
			"took", e.Now().Sub(j.started).Round(time.Millisecond))
	}
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

// decide writes the decision of the attempt. While the log is full, it waits and keeps the result, because another run
// of the tool might not give the same result.
func (e *Executor) decide(ctx context.Context, j *job, end call.Completion, d outcome.Draft) (outcome.Stored, error) {
	var o outcome.Stored
	err := timer.Backoff{Pause: retryDelay}.Until(ctx, func(ctx context.Context) (done bool, err error) {
		o, err = outcome.Resolve(ctx, e.CallLog, j.state, j.attempt, j.delivery.Admitted, end, d, j.earlier)
		if done = !errors.Is(err, call.ErrFull); !done {
			e.Logger.Warn("the call log is full: a decision waits", "call", j.state.ID, "attempt", j.attempt)
		}
		return done, err
	})
	return o, err
}

// deliver sends the stored outcome to the caller.
func (e *Executor) deliver(j *job) error {
	o, err := outcome.Load(j.ctx, e.CallLog, j.state, j.attempt)
	if err != nil {
		return err
	}
	e.reply(j, o)
	return nil
}

func (e *Executor) reply(j *job, o outcome.Stored) {
	e.step(call.TraceBeforeReply, j)
	e.Replies.Outcome(o.Attempt.Owner.ReplyAddress(), o.For(o.Attempt.Owner.CallID, false))
}

// confirm ends a side-effectful attempt whose executor is gone. The lookup of the tool may confirm the effect; that it
// finds nothing proves nothing.
func (e *Executor) confirm(j *job) error {
	if j.state.Lookup == call.LookupNo {
		return e.finish(j, call.Completion{Cause: call.ClaimLost}, outcome.Draft{})
	}
	m, adapter, fault := e.find(j)
	if fault != nil || !m.Capability.Lookup {
		return e.finish(j, call.Completion{Cause: call.ClaimLost}, outcome.Draft{Error: fault})
	}
	ctx := e.untilDue(j, &j.run)
	inv, err := e.invocation(ctx, j, m)
	var res tool.Result
	found := false
	if err == nil {
		j.adapter, j.manifest, j.looks = adapter, m, true
		res, found, err = adapter.Lookup(ctx, m, inv)
	}
	if errors.Is(err, tool.ErrAbandoned) {
		return err
	}
	return e.confirmed(j, m, res, found, err)
}

// confirmed ends the attempt with the result of a lookup of the tool m.
func (e *Executor) confirmed(j *job, m *tool.Manifest, res tool.Result, found bool, err error) error {
	switch {
	case err != nil && j.ctx.Err() != nil:
		return errDrained // another executor can do the lookup
	case err != nil || !found:
		return e.finish(j, call.Completion{Cause: call.ClaimLost}, outcome.Draft{})
	}
	end, draft := e.outcome(j.run, j, m, res, nil)
	draft.Timed = false // the times of the run are not known here
	if end.Error == "" {
		end.Cause = call.Confirmed
	}
	return e.finish(j, end, draft)
}

// deadLetter stores the dead letter of a poison call, and then decides the attempt as lost. Both name the same effect.
func (e *Executor) deadLetter(j *job) error {
	cause := envelope.NewError(envelope.CodeLost, "")
	if r := call.Decide(j.state, j.attempt, j.delivery.Admitted, call.Completion{Cause: call.Poisoned}); r.Do {
		cause.WithEffect(r.Effect)
	}
	if err := e.Records.Dead(j.ctx, j.state, j.message.Entry, j.message.Deliveries, cause); err != nil {
		return err
	}
	return e.finish(j, call.Completion{Cause: call.Poisoned}, outcome.Draft{Error: cause})
}

// step emits a trace point for j.
func (e *Executor) step(at call.TracePoint, j *job) { e.Trace.Emit(j.ctx, at, &j.state, j.attempt) }
