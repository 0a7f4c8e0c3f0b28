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
	"github.com/seed-018f16cc/toolbus/internal/auth"
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

// Catalog finds tools.
type Catalog interface {
	// Get returns the version of a tool that a request for want gets. Beside a refusal is the version to judge
	// the request by all the same, or nil: there is no such tool.
	Get(id, want string) (*tool.Manifest, *envelope.Error)
	Named(token string) (id string, ok bool) // by the token of its id in subjects
}

// Replier answers callers. Answers are best effort: callers ask again.
type Replier interface {
	Accepted(to call.ReplyAddress, a *envelope.Accepted)
	Outcome(to call.ReplyAddress, r *envelope.Response)
}

// Payloads fetches inputs that are too large to travel inline.
type Payloads interface {
	Get(ctx context.Context, of subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error)
}

// Capacity says whether the deployment can take more.
type Capacity interface {
	AuditBehind() time.Duration // how far the audit projection is behind
	LogFull() bool              // the call log is above its high-water mark
}

// Recorder records what the call log does not hold of callers: refusals and denials, before they are answered, and
// with whom else than its owner an attempt is shared. It returns [audit.ErrRefused] where they cannot be recorded until
// somebody makes room.
type Recorder interface {
	// Denied returns the id of the record; where that is of many refusals, counted says which of them this is.
	Denied(ctx context.Context, in *call.IncomingRequest, req *envelope.Request, e *envelope.Error) (id string,
		counted uint64, err error)
	// Allowed records callers that share attempt n of s, which another has opened: they join it, or are
	// told its outcome.
	Allowed(ctx context.Context, s call.State, n int, callers []call.Owner) error
	// Note records anything else, such as the replay of a dead letter.
	Note(ctx context.Context, r audit.Record) error
}

// Control reaches executors, for whose answers it waits a short, bounded time, and all dispatchers of the deployment,
// this one included: nobody knows where a caller waits.
type Control interface {
	// Kill tells executors that an attempt was cancelled; running is true when one of its pool says that it ran it.
	Kill(ctx context.Context, pool, id string, attempt int, due time.Time) (running bool)
	// Locate asks which executor of a pool runs an attempt; ok is false where none says in time that it does.
	Locate(ctx context.Context, pool, id string, attempt int) (by string, since time.Time, ok bool)
	JoinerLeft(l envelope.JoinerLeft) // lets every dispatcher Forget; best effort
}

// Pools knows how many executors of a pool live.
type Pools interface {
	Alive(ctx context.Context, pool string) (int, error)
}

// Definitions knows which tools their servers define otherwise than they were approved.
type Definitions interface {
	// Changed reports whether all executors of the pool that have compared a tool's definition with the one that was
	// approved, by its digest, found another one, and whether some of them did and others did not. It asks nobody, and
	// neither holds where no executor has compared it.
	Changed(pool, server, tool, definition string) (all, some bool)
}

// DefaultPoolAbsence rides out a rolling restart of the executors of a pool.
const DefaultPoolAbsence = 10 * time.Second

// Options configure a Dispatcher. Evidence, Definitions, Observer, Logger and the bounds are optional; the other
// fields are required.
type Options struct {
	Catalog  Catalog
	CallLog  Log
	Replies  Replier
	Payloads Payloads
	Capacity Capacity
	Records  Recorder
	Control  Control
	Pools    Pools
	Tokens   *auth.Verifier // nil: whoever the subject says is believed to be that
	// OlderBuilds says that builds up to f16d274 share the bus: bound tokens are answered anywhere below the prefix of
	// their actor, and calls are admitted without the rule of [call.State.Allows].
	OlderBuilds bool
	// Strange says which instances are of executors, where the server lets each write under its own alone: what one of
	// them stored and cannot be read keeps nobody waiting. Nil is none.
	Strange      func(instance string) bool
	PoolEvidence PoolEvidence // nil: nothing is known, and nothing ended early for want of executors
	// Definitions says which tools are refused until they are approved; nil refuses none.
	Definitions Definitions
	Now         func() time.Time // bus time
	Instance    string           // unique per start of a process; every nonce begins with it
	NewNonce    func() string
	// Fsync says that the deployment survives a power cut; without it, side-effectful tools
	// are refused unless their manifest accepts a second run after one.
	Fsync    bool
	AuditLag time.Duration // admission stops when the projection is further behind; default 10 s
	Strict   bool          // what is admitted may start only once the record holds its request
	Backup   time.Duration // how long a guardian leaves others' deadlines to them; default 20 ms
	// PoolAbsence is how long nobody of a pool must have lived before its calls are ended for want of executors;
	// default 10 s. It should be longer than a restart of the executors takes, and be no less than the lease.
	PoolAbsence time.Duration
	// PayloadMemory is how many bytes large inputs may take while they are checked; others wait. Default 128 MiB.
	PayloadMemory int64
	// OverQuota says for how long an actor, which has filled the payload store, is to have no large inputs; nil is
	// nobody.
	OverQuota func(subjects.Owner) time.Duration
	// OpenPerActor and OpenPerTenant are how many attempts may be open of one; beyond them calls are refused. Default
	// 100,000 and 200,000.
	OpenPerActor, OpenPerTenant int
	// OverflowAfter is how many attempts of an actor are handed out before those of actors that have more open; default
	// 8.
	OverflowAfter int
	// Partitions is how many the call log has; default 1.
	Partitions int
	Trace      call.Trace
	Logger     *slog.Logger
}

// Dispatcher admits calls. Its methods are safe for concurrent use.
type Dispatcher struct {
	Options
	notices   format.Notices
	mu        sync.Mutex
	keyQueues map[logKey]*keyQueue
	deadlines []*deadlineWatch // by partition
	opened    flow.Counters
	// notifications are outcomes on their way to callers that wait here.
	notifications   chan notification
	sharings        chan sharing // on their way to the record
	sharers         atomic.Int64 // callers in these
	acceptances     acceptances
	joinerDeadlines *timer.Queue[envelope.JoinerLeft] // joiners here whose deadline is before the attempt's
	inputs          *inputs
	answers         *answers // the Replies
	stages          []stage
}

// New returns a Dispatcher; Run must be called for deadlines to be kept.
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
		inputs: newInputs(o.PayloadMemory), stages: stages(),
	}
	for range max(1, o.Partitions) {
		d.deadlines = append(d.deadlines, newDeadlineWatch(o.Now))
	}
	return d
}

// Handle sees one request through admission: it is checked, stage by stage, written to the log of its key, and
// answered. The outcome of an accepted call is delivered later, by whoever decides it. A request that panics it is
// answered, too.
func (d *Dispatcher) Handle(ctx context.Context, in *call.IncomingRequest) {
	d.handle(ctx, &candidate{request: request{in: in}})
}

// handle is Handle of a candidate. One that has a principal already is from this process.
func (d *Dispatcher) handle(ctx context.Context, c *candidate) {
	in := c.in
	defer func() {
		if p := recover(); p != nil {
			d.failed(ctx, p, c.request)
		}
	}()
	if d.Trace.Event != nil {
		d.Trace.Event(ctx, call.TraceEvent{At: call.TraceReceived, Tool: in.Tool})
	}
	at, refusal := d.check(ctx, c)
	in.OnlyWaits()
	switch {
	case refusal == nil:
		d.admit(ctx, c.caller)
	case at.unproven: // no dispatcher takes it in, nor reads the log for it; another copy may have been admitted
		d.refuse(ctx, c.request, at.name, refusal, !stands(refusal.Code))
	default:
		d.deny(ctx, c.request, at.name, refusal)
	}
}
