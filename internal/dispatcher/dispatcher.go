package dispatcher

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Log is the call log. kv.Log implements it.
type Log = outcome.Log

// Names finds tools by subject tokens.
type Names interface {
	Named(token string) (id string, ok bool) // returns the id of the tool with this subject token
}

// Replier sends answers to callers. Answers may be lost: clients send the request again.
type Replier interface {
	Accepted(to call.ReplyAddress, a *envelope.Accepted)
	Outcome(to call.ReplyAddress, r *envelope.Response)
}

// Capacity reports whether the deployment can admit more calls.
type Capacity interface {
	AuditBehind() time.Duration // lag of the audit record behind the call log
	LogFull() bool              // the call log is above its high-water mark
}

// Recorder records facts that the call log does not hold: refusals, before they are sent, and callers that share the
// attempt of another. Its methods return [audit.ErrRefused] if the audit record is full and configured to refuse.
type Recorder interface {
	// Denied records a refusal and returns the id of the record. If the record counts several refusals, counted is the
	// number of this one.
	Denied(ctx context.Context, r audit.Refusal) (id string, counted uint64, err error)
	// Shared records callers that share attempt n of s, which another request opened: they join it, or get its outcome.
	Shared(ctx context.Context, s call.State, n int, callers []call.Owner) error
	// Note records any other fact, such as the replay of a dead letter.
	Note(ctx context.Context, r audit.Record) error
}

// Control sends messages to executors, for whose answers it waits a short time, and to all dispatchers including this
// one, because a caller may wait at any of them.
type Control interface {
	// Kill asks the executors of the pool to end a cancelled attempt. running is true if one of them answers that it ran
	// it.
	Kill(ctx context.Context, pool, id string, attempt int, due time.Time) (running bool)
	// Locate asks which executor of a pool runs an attempt. ok is false if none answers in time that it does.
	Locate(ctx context.Context, pool, id string, attempt int) (by string, since time.Time, ok bool)
	JoinerLeft(l envelope.JoinerLeft) // makes every dispatcher call RemoveJoiner; may be lost
}

// Pools returns the number of executors of a pool that have a heartbeat.
type Pools interface {
	Alive(ctx context.Context, pool string) (int, error)
}

// DefaultPoolAbsence is longer than a rolling restart of the executors of a pool usually takes.
const DefaultPoolAbsence = 10 * time.Second

// CheckOptions are the options of the stages.
type CheckOptions = check.Options

// Options configures a [Dispatcher]. Strange, PoolEvidence, Builds, Trace, Logger and all limits are optional; the
// other fields are required.
type Options struct {
	CheckOptions
	Names    Names
	CallLog  Log
	Replies  Replier
	Capacity Capacity
	Records  Recorder
	Control  Control
	Pools    Pools
	// Strange reports whether an instance is an executor, if server permissions let each executor write only under its own
	// instance. An unreadable event of such an instance does not block other calls. nil means that no instance is.
	Strange      func(instance string) bool
	PoolEvidence PoolEvidence     // nil: attempts of absent pools end at their deadlines
	Builds       Builds           // nil: attempts whose build no live executor has end at their deadlines
	Now          func() time.Time // bus time
	Instance     string           // unique per start of a process; every nonce begins with it
	NewNonce     func() string
	AuditLag     time.Duration // largest lag of the audit record at which calls are admitted; default 10 s
	Backup       time.Duration // delay before deadlines of other dispatchers' attempts are enforced; default 20 ms
	// PoolAbsence is the time without a live executor after which waiting calls of a pool are ended; default 10 s. It
	// should be longer than a restart of the executors takes, and not shorter than the lease.
	PoolAbsence time.Duration
	// OpenPerActor and OpenPerTenant are the largest numbers of open attempts of one actor and one tenant; further calls
	// are refused. Default 100,000 and 200,000.
	OpenPerActor, OpenPerTenant int
	// OverflowAfter is the number of open attempts of an actor above which further ones go to the overflow queue; default
	// 8.
	OverflowAfter int
	// Partitions is the number of partitions of the call log; default 1.
	Partitions int
	Trace      call.Trace
	Logger     *slog.Logger
}

// Dispatcher admits calls. Make one with [New]. Its methods are safe for concurrent use.
type Dispatcher struct {
	Options
	Checks    *check.Stages
	notices   format.Notices
	mu        sync.Mutex
	keyQueues map[logKey]*keyQueue
	deadlines []*deadlineWatch // by partition
	opened    flow.Counters
	// notifications holds outcomes to be sent to callers that wait here.
	notifications   chan notification
	sharings        chan sharing // replays to be recorded
	sharers         atomic.Int64 // number of callers in sharings
	acceptances     acceptances
	joinerDeadlines *timer.Queue[envelope.JoinerLeft] // joiners that wait here with an earlier deadline than their attempt
	answers         *answers                          // the same as Replies
}

// New returns a Dispatcher. It enforces deadlines only while its Run runs.
func New(o Options) *Dispatcher {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.AuditLag, o.Backup = cmp.Or(o.AuditLag, 10*time.Second), cmp.Or(o.Backup, 20*time.Millisecond)
	o.PoolAbsence = cmp.Or(o.PoolAbsence, DefaultPoolAbsence)
	o.OpenPerActor = cmp.Or(o.OpenPerActor, DefaultOpenPerActor)
	o.OpenPerTenant = cmp.Or(o.OpenPerTenant, DefaultOpenPerTenant)
	o.OverflowAfter = cmp.Or(o.OverflowAfter, DefaultOverflowAfter)
	replies := &answers{Replier: o.Replies}
	o.Replies = replies
	d := &Dispatcher{
		Options: o, answers: replies, keyQueues: map[logKey]*keyQueue{},
		notifications: make(chan notification, 256), sharings: make(chan sharing, maxSharings),
		acceptances: acceptances{first: make(chan struct{}, 1)}, joinerDeadlines: timer.NewQueue[envelope.JoinerLeft](),
	}
	d.Checks = check.New(&d.CheckOptions, o.Now, o.NewNonce)
	for range max(1, o.Partitions) {
		d.deadlines = append(d.deadlines, newDeadlineWatch(o.Now))
	}
	return d
}

// Handle handles one request: it runs the stages, writes the request event to the log of the key, and answers. The
// process that decides the attempt sends the outcome later. If handling the request panics, Handle answers with an
// error.
func (d *Dispatcher) Handle(ctx context.Context, in *call.IncomingRequest) {
	d.handle(ctx, &check.Request{In: in})
}

// handle is Handle for a request that may have a principal already.
func (d *Dispatcher) handle(ctx context.Context, r *check.Request) {
	defer func() {
		if p := recover(); p != nil {
			d.failed(ctx, p, r)
		}
	}()
	if d.Trace.Event != nil {
		d.Trace.Event(ctx, call.TraceEvent{At: call.TraceReceived, Tool: r.In.Tool})
	}
	c, refusal := d.Checks.Check(ctx, r)
	r.In.OnlyWaits()
	switch {
	case refusal == nil:
		d.admit(ctx, c, call.State{})
	case refusal.Unproven: // do not read the log for it; another copy may be admitted
		d.refuse(ctx, r, refusal.Stage, refusal.Error, !stands(refusal.Error.Code))
	default:
		d.deny(ctx, r, refusal.Stage, refusal.Error)
	}
}
