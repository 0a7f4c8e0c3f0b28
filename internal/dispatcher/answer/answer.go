package answer

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Log is the call log. kv.Log implements it.
type Log = outcome.Log

// Heads reads events that may lack their bodies: a question about the state of a call should not have its input sent.
// kv.Log implements it.
type Heads interface {
	// Head returns the last event of a log, like Read of [outcome.Log].
	Head(ctx context.Context, tool, id string) (call.Entry, error)
	// StoredAt returns the time of the event of the log s at a sequence, or the zero time if it has expired.
	StoredAt(ctx context.Context, s call.State, seq uint64) (time.Time, error)
	// Events returns the events of a log that are still stored, from a request on, oldest first.
	Events(ctx context.Context, tool, id string, from uint64) ([]call.Entry, error)
}

// Process has the log, the clock and the hooks that all parts of one dispatcher share. Heads, Strange, ToolsDiffer,
// Damage, Silent, Trace and Logger are optional.
type Process struct {
	CallLog  Log
	Heads    Heads            // nil: CallLog, with the bodies
	Now      func() time.Time // bus time
	Instance string           // unique per start of a process; every nonce begins with it
	NewNonce func() string
	// Strange reports whether an instance is an executor, if server permissions let each executor write only under its own
	// instance. An unreadable event of such an instance does not block other calls. nil means that no instance is.
	Strange func(instance string) bool
	// ToolsDiffer reports whether another dispatcher has loaded other tools. nil means that none has.
	ToolsDiffer func() bool
	// Damage has a call whose log is damaged listed for operators. nil lists none.
	Damage func(context.Context, envelope.DamagedCall)
	// Silent returns for how long the server has acknowledged no write to the log, although it answered reads. nil means
	// that it has acknowledged all.
	Silent func() time.Duration
	Trace  call.Trace
	Logger *slog.Logger // nil: discards
}

// IsStrange reports whether Strange identifies the writer of an event with this nonce.
func (p *Process) IsStrange(nonce string) bool {
	return p.Strange != nil && p.Strange(call.Instance(nonce))
}

// unstoredAfter is the time without an acknowledged write after which a server counts as one that stores nothing. The
// election of a leader takes less.
const unstoredAfter = 8 * time.Second

// StoresNothing reports whether the server acknowledges no write to the call log, although it answers reads. It does so
// after a failed write to its disk, until it is started again.
func (p *Process) StoresNothing() bool { return p.Silent != nil && p.Silent() >= unstoredAfter }

// Head returns the last event of a log. It may lack its body.
func (p *Process) Head(ctx context.Context, tool, id string) (call.Entry, error) {
	if p.Heads == nil {
		return p.CallLog.Read(ctx, tool, id)
	}
	return p.Heads.Head(ctx, tool, id)
}

// StoredAt returns when the server stored the event of the log s at a sequence, or the zero time if it has expired.
func (p *Process) StoredAt(ctx context.Context, s call.State, seq uint64) (time.Time, error) {
	if p.Heads == nil {
		e, err := outcome.At(ctx, p.CallLog, s, seq)
		return e.Time, err
	}
	return p.Heads.StoredAt(ctx, s, seq)
}

// Safely calls f and reports whether f returned. It recovers from a panic of f and logs it with its stack.
func (p *Process) Safely(what string, f func()) (returned bool) {
	defer func() {
		if cause := recover(); cause != nil {
			p.Panicked(what, cause)
		}
	}()
	f()
	return true
}

func (p *Process) Panicked(what string, cause any) {
	p.Logger.Error("panic", "operation", what, "panic", cause, "stack", string(debug.Stack()))
}

// Replier sends answers to callers. Answers may be lost: clients send the request again.
type Replier interface {
	Accepted(to call.ReplyAddress, a *envelope.Accepted)
	Outcome(to call.ReplyAddress, r *envelope.Response)
}

// Recorder records facts that the call log does not hold. Its methods return [audit.ErrRefused] if the audit record is
// full and configured to refuse.
type Recorder interface {
	// Denied records a refusal and returns the id of the record. If the record counts several refusals, counted is the
	// number of this one.
	Denied(ctx context.Context, r audit.Refusal) (id string, counted uint64, err error)
	// Shared records callers that share attempt n of s, which another request opened: they join it, or get its outcome.
	Shared(ctx context.Context, s call.State, n int, callers []call.Owner) error
}

// Lines finds the line of a key.
type Lines interface {
	Line(key subjects.Key) *Line // nil if the key has none
	Retire(l *Line)              // removes a line that is idle
}

// Decisions reports what is known of the outcomes of attempts.
type Decisions interface {
	// Decided reports whether the attempt, whose request event is at the position admitted, is known to have an outcome.
	Decided(admitted call.Position, id string, attempt int) bool
}

// Answers answers the callers of one dispatcher. Make one with [New]. Its methods are safe for concurrent use.
type Answers struct {
	*Process
	replies       Replier
	records       Recorder
	lines         Lines
	decisions     Decisions
	notifications chan notification // outcomes to be sent to callers that wait here
	sharings      chan sharing      // replays to be recorded
	sharers       atomic.Int64      // number of callers in sharings
	acceptances   acceptances
	// joinerDeadlines has the joiners that wait here with an earlier deadline than their attempt.
	joinerDeadlines *timer.Queue[envelope.JoinerLeft]
}

// New returns Answers, which send delayed answers only while Run runs.
func New(p *Process, replies Replier, records Recorder, lines Lines, decisions Decisions) *Answers {
	return &Answers{
		Process: p, replies: replies, records: records, lines: lines, decisions: decisions,
		notifications: make(chan notification, 256), sharings: make(chan sharing, maxSharings),
		acceptances: acceptances{first: make(chan struct{}, 1)}, joinerDeadlines: timer.NewQueue[envelope.JoinerLeft](),
	}
}

// tellers is the number of goroutines that send outcomes to waiting callers.
const tellers = 32

// Run sends delayed acceptances, outcomes to waiting callers, and answers at the deadlines of joiners, and records
// replays, until ctx ends. Its goroutines have ended when it returns.
func (a *Answers) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range tellers {
		wg.Go(func() { a.tellAll(ctx) })
	}
	for range recorders {
		wg.Go(func() { a.recordAll(ctx) })
	}
	wg.Go(func() { a.keepJoinerDeadlines(ctx) })
	a.acceptLate(ctx)
}

// TellOwner sends the owner of a decided attempt the outcome, if it has a reply subject.
func (a *Answers) TellOwner(o outcome.Stored) {
	if owner := o.Attempt.Owner; owner.Reply != "" {
		a.replies.Outcome(owner.ReplyAddress(), o.For(owner.CallID, false))
	}
}
