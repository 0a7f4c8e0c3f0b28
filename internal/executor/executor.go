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
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Log is the call log; kv.Log is one.
type Log = outcome.Log

// Catalog finds the tools that this executor can run.
type Catalog interface {
	// Get returns that version of a tool or, beside a refusal, the one that there is instead; nil is no such tool.
	Get(id, version string) (*tool.Manifest, *envelope.Error)
}

// Lease is the hold on one work message. None of its methods proves ownership.
type Lease interface {
	InProgress()                      // say that the work is alive
	Ack()                             // the attempt is decided: done
	NakWithDelay(after time.Duration) // give it to somebody else, not before after
	NakUnstarted(after time.Duration) // NakWithDelay of work that nothing was done with
	// TakeOver calls rest in another goroutine, instead of the one that Handle was called in: the tool does not return
	// there. The message is handled when rest returns. TakeOver does not block.
	TakeOver(rest func())
}

// Replier delivers an outcome to where a caller waits; it is best effort, callers ask again.
type Replier interface {
	Outcome(to call.ReplyAddress, r *envelope.Response)
}

// Stream takes the chunks of one run. Close waits until all are stored.
type Stream interface {
	tool.Sink
	Close(ctx context.Context) (envelope.Chunks, error)
}

// Streams opens the stream of a run; ctx is the run's and bounds the stream.
type Streams interface {
	Open(ctx context.Context, s call.State, attempt int, fence uint64, limit int64) Stream
}

// Payloads holds what is too large to travel inline.
type Payloads interface {
	Put(ctx context.Context, of subjects.PayloadOwner, data []byte) (envelope.PayloadRef, error)
	Get(ctx context.Context, of subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error)
}

// Liveness knows which executors live.
type Liveness interface {
	Expired(ctx context.Context, instance string) bool
}

// RecordSink keeps what the call log does not: dead letters, and results that came too late.
type RecordSink interface {
	// Dead keeps a call that is given up: s is what became of it since its work message m was written.
	Dead(ctx context.Context, s call.State, m call.Entry, deliveries int, cause *envelope.Error) error
	LateResult(ctx context.Context, s call.State, attempt int, said call.Completion) error
}

// Watermark knows up to where the audit record holds the call log.
type Watermark interface {
	// Wait returns when the record is known to hold the event that was stored at a position at that time. An error is the
	// cause of the end of ctx, or that the record cannot be read.
	Wait(ctx context.Context, p call.Position, at time.Time) error
}

// Options are what an Executor is made of; all but Observer and Logger are required.
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
	Now       func() time.Time // bus time
	NewNonce  func() string
	Lease     time.Duration // see bus.DefaultLease
	// PayloadMemory is how many bytes large inputs may take until their tools have them; others wait. Default 128 MiB.
	PayloadMemory int64
	Trace         call.Trace
	Logger        *slog.Logger // nil discards
}

// Executor runs the calls it is handed. Handle is safe for concurrent use; whoever calls it
// bounds how many run at once.
type Executor struct {
	Options
	notices       format.Notices
	mu            sync.Mutex
	running       map[call.AttemptKey]*job
	loads         map[string]*load              // of the tools that run, or are waited for
	killed        map[call.AttemptKey]time.Time // kills heard since listening of attempts not here, until their deadline
	forgot        time.Time                     // kills heard before may be forgotten
	doubts        map[*job]bool                 // attempts here that are said to be cancelled, for Confirm
	doubted       chan struct{}                 // there are some
	forged        flow.Dropped                  // kills that the log does not confirm
	shared        sharedContext                 // of the newest message
	since         time.Time                     // no kill was missed since then; zero: all may have been
	inputMemory   *flow.MemoryBudget            // for large inputs
	heartbeatSent time.Time                     // when the newest heartbeat was sent; zero: none is told of
}

// New returns an Executor.
func New(o Options) *Executor {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Executor{
		Options: o, running: map[call.AttemptKey]*job{}, loads: map[string]*load{}, killed: map[call.AttemptKey]time.Time{},
		doubts: map[*job]bool{}, doubted: make(chan struct{}, 1),
		inputMemory: flow.NewMemoryBudget(o.PayloadMemory, 0, 0),
	}
}

// Message is a work message: the request event as stored, and the hold on it.
type Message struct {
	Entry      call.Entry
	Deliveries int // 1 on the first
	Lease      Lease
}

// How long a message is handed back for.
const (
	retryDelay   = 250 * time.Millisecond // the log could not be reached; more each time
	retryMost    = 2 * time.Second        // thousands that come again and again are no help to whoever is back
	busyDelay    = 50 * time.Millisecond  // the tool has all the runs it may have here; at least
	busySpace    = time.Millisecond       // between messages that wait for the same tool
	busyMost     = 2 * time.Second        // it may be free elsewhere
	missingDelay = time.Second            // the tool is not here
)

// Handle sees one work message through the protocol: it takes the attempt up, with a claim where its class needs one,
// runs the tool, and decides. When it returns, the message is acknowledged, because its attempt has an outcome or its
// log is gone, or it is handed back.
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

// conclude does what is to be done for a message, and acknowledges it or hands it back. Its tool may be abandoned
// meanwhile: then the message is not this goroutine's any more, and is concluded again.
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
		if errors.Is(err, outcome.ErrUnreadable) { // the attempt has ended, and dispatchers tell its callers how
			e.Logger.Error("the outcome that another stored cannot be read", "call", j.state.ID, "attempt", j.attempt,
				"err", err)
		}
		e.step(call.TraceBeforeAck, j)
		j.message.Lease.Ack()
	case errors.Is(err, errUnrecorded):
		e.step(call.TraceNak, j)
		j.message.Lease.NakUnstarted(retryDelay)
	case errors.Is(err, errWait):
		e.nak(j, e.Lease/4)
	case format.Newer(err):
		e.notices.Log(e.Logger, "work handed to executors of a newer build", err)
		e.nak(j, missingDelay)
	default:
		e.Logger.Warn("nak", "call", j.state.ID, "attempt", j.attempt, "err", err)
		e.nak(j, min(time.Duration(max(1, j.message.Deliveries))*retryDelay, retryMost))
	}
}

func (e *Executor) nak(j *job, after time.Duration) {
	e.step(call.TraceNak, j)
	j.message.Lease.NakWithDelay(after)
}

// errWait says that another executor runs the attempt.
var errWait = errors.New("claimed by a live executor")

// follow does what take found out.
func (e *Executor) follow(j *job, step call.NextStep) error {
	switch step {
	case call.Run:
		return e.run(j)
	case call.Adopt:
		return e.deliver(j)
	case call.Expire:
		// Handed to nobody before, it was started by nobody; what comes later finds it past its deadline, too.
		end := call.Completion{Cause: call.TimedOut, NotTaken: j.delivery.Deliveries <= 1, Stored: call.At(j.enqueued)}
		return e.finish(j, end, outcome.Draft{})
	case call.WaitClaim:
		return errWait
	case call.AskTool:
		return e.confirm(j)
	case call.DeadLetter:
		return e.deadLetter(j)
	}
	return outcome.ErrAttemptGone // Drop
}

// take finds the next step, writing the claim where the step needs one. The state in a message
// delivered for the first time is as good as a read: what is written next proves it. Where it may
// not be the first time (a server that was killed forgets its counts), the message is treated as
// a second delivery: it claims before it runs, so that every run has a fence of its own.
func (e *Executor) take(j *job) (call.NextStep, error) {
	if err := e.lookUp(j); err != nil {
		return 0, err
	}
	for {
		// The clocks differ a little: nobody may start what the server stored after its deadline.
		j.delivery.Now = max(call.At(e.Now()), call.At(j.enqueued))
		step, claim := call.Take(j.state, j.delivery)
		if (step == call.Run || step == call.TakeClaim) && j.unrecorded() {
			if err := e.waitRecorded(j); err != nil {
				return 0, err
			}
			continue
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

// lookUp reads the log of a message that may not be delivered for the first time, or that is said to be cancelled. That
// somebody says so alone does not make it a second delivery.
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

// decideTime is how long a decision may still take when the executor shuts down. A result in hand
// is worth recording even then.
const decideTime = 10 * time.Second

// sharedContext holds the context and its watchdog for messages that are handled together, usually all of a process.
type sharedContext struct {
	ctx    context.Context
	longer context.Context // ends decideTime after ctx
	dog    *timer.Watchdog
}

// under returns the hand of ctx. Callers hold e.mu.
func (e *Executor) under(ctx context.Context) sharedContext {
	if e.shared.ctx != ctx {
		longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, func() { time.AfterFunc(decideTime, cancel) })
		e.shared = sharedContext{ctx, longer, timer.NewWatchdog(ctx)}
	}
	return e.shared
}

// finish decides the attempt and delivers what stands.
func (e *Executor) finish(j *job, end call.Completion, d outcome.Draft) error {
	end.By, end.Nonce, end.Now, end.Claim = call.ByExecutor, e.NewNonce(), call.At(e.Now()), j.claim
	e.step(call.TraceBeforeDecide, j)
	ctx := j.shared.longer
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

// logOutcome is for whoever wants every event logged. Where another was there first, it says what that one decided.
func (e *Executor) logOutcome(ctx context.Context, j *job, o outcome.Stored) {
	if e.Logger.Enabled(ctx, slog.LevelInfo) {
		d := o.Attempt.Decision
		e.Logger.InfoContext(ctx, "ended", "tool", j.state.Tool, "version", j.state.Version, "call", j.state.ID,
			"attempt", j.attempt, "status", d.Status, "code", d.Code,
			"took", e.Now().Sub(j.started).Round(time.Millisecond))
	}
}

// late reports whether a run has more to say than its attempt, as another has decided it: that it ended
// otherwise or, where it was ended, what the tool said of its effect on its way out.
func late(s call.State, end call.Completion, d *call.Decision) bool {
	switch end.Cause {
	case call.ToolEnded:
		return end.Error != d.Code || end.Output != d.OutputHash
	case call.TimedOut, call.Cancelled:
		return !s.HasNoEffect() && end.Effect != envelope.EffectUnknown && end.Effect != d.Effect
	}
	return false
}

// decide decides the attempt. A full log keeps it waiting, with the result in hand: run again, the
// tool might not be able to give it once more.
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

// deliver hands out the outcome that is stored already.
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

// confirm ends a side-effectful attempt whose executor is gone: the tool's lookup may confirm
// the effect, and nothing else may be concluded from it.
func (e *Executor) confirm(j *job) error {
	m, adapter, fault := e.find(j)
	if fault != nil || !m.Capability.Lookup || j.state.Lookup == call.LookupNo {
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

// confirmed ends the attempt by what a lookup of the tool m has found.
func (e *Executor) confirmed(j *job, m *tool.Manifest, res tool.Result, found bool, err error) error {
	switch {
	case err != nil && j.ctx.Err() != nil:
		return errDrained // another executor can ask
	case err != nil || !found:
		return e.finish(j, call.Completion{Cause: call.ClaimLost}, outcome.Draft{})
	}
	end, draft := e.outcome(j.run, j, m, res, nil)
	draft.Timed = false // what is known of the run is in the log
	if end.Error == "" {
		end.Cause = call.Confirmed
	}
	return e.finish(j, end, draft)
}

// deadLetter keeps a poison call among the dead letters, then decides it lost. Letter and outcome name the same effect.
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

// step tells whoever observes that j takes a step.
func (e *Executor) step(at call.TracePoint, j *job) { e.Trace.Emit(j.ctx, at, &j.state, j.attempt) }
