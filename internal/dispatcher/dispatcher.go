package dispatcher

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/admission"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Names finds tools by subject tokens.
type Names interface {
	Named(token string) (id string, ok bool) // returns the id of the tool with this subject token
}

// Recorder records facts that the call log does not hold.
type Recorder interface {
	answer.Recorder
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
	// Answer sends an answer to the executor by, a full name, for its question with the given id. It may be lost.
	Answer(by, question string, a call.Answer) error
	JoinerLeft(l envelope.JoinerLeft) // makes every dispatcher call RemoveJoiner; may be lost
}

// Pools returns the number of executors of a pool that have a heartbeat.
type Pools interface {
	Alive(ctx context.Context, pool string) (int, error)
}

// The options of the parts.
type (
	Process          = answer.Process
	CheckOptions     = check.Options
	DeadlineOptions  = deadline.Options
	AdmissionOptions = admission.Options
)

// Options configures a [Dispatcher]. Overflow is optional; the other interfaces are required.
type Options struct {
	Process
	CheckOptions
	DeadlineOptions
	AdmissionOptions
	Names      Names
	Replies    answer.Replier
	Records    Recorder
	Control    Control
	Pools      Pools
	Overflow   admission.Pools // nil: all calls are of the first step
	Partitions int             // of the call log; default 1
	Lease      time.Duration   // after which an executor takes a call from another one
}

// Dispatcher admits calls. Make one with [New]. Its methods are safe for concurrent use.
type Dispatcher struct {
	Options
	Checks    *check.Stages
	Answers   *answer.Answers
	Deadlines *deadline.Deadlines
	admission *admission.Admission
	replies   *replies // what Answers sends to
}

// New returns a Dispatcher. It enforces deadlines only while its Run runs.
func New(o Options) *Dispatcher {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	d := &Dispatcher{Options: o, replies: &replies{Replier: o.Replies}}
	queues, watches, open := admission.NewQueues(), deadline.NewWatches(o.Partitions, o.Now), &flow.Counters{}
	d.Checks = check.New(&d.CheckOptions, o.Now, o.NewNonce)
	d.Answers = answer.New(&d.Process, d.replies, o.Records, queues, watches)
	d.Deadlines = deadline.New(&d.Process, &d.DeadlineOptions, watches, d.Answers, open)
	d.admission = admission.New(&d.Process, &d.AdmissionOptions, admission.Parts{
		Checks: d.Checks, Answers: d.Answers, Deadlines: d.Deadlines, Queues: queues, Records: o.Records,
		Pools: o.Overflow, Open: open,
	})
	return d
}

// Run enforces deadlines and answers waiting callers until ctx ends. Its goroutines have ended when it returns.
func (d *Dispatcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { d.Answers.Run(ctx) })
	d.Deadlines.Run(ctx)
	wg.Wait()
	return nil
}

// Stopped returns what is missing for calls to be admitted, or "" if they are.
func (d *Dispatcher) Stopped() string {
	switch {
	case d.StoresNothing():
		return "writes to the call log: the server answers, and stores nothing"
	case d.Capacity.LogFull():
		return "room in the call log"
	case d.Capacity.AuditBehind() > d.AuditLag:
		return "the audit record, which is behind the call log"
	}
	return ""
}

// Handle takes a request through the steps of the gateway contract. The stages are steps 1 to 8, and the checks of
// step 9. Admission completes step 9: it writes the request event, which is both the record and the work message.
// Executors do steps 10 and 11, and the audit record follows the log for step 12. Step 13 is the answer: the process
// that decides the attempt sends the outcome. If handling the request panics, Handle answers with an error.
func (d *Dispatcher) Handle(ctx context.Context, in *call.IncomingRequest) {
	d.handle(ctx, &check.Request{In: in})
}

// handle is Handle for a request that may have a principal already.
func (d *Dispatcher) handle(ctx context.Context, r *check.Request) {
	defer func() {
		if p := recover(); p != nil {
			d.Answers.Failed(ctx, p, r)
		}
	}()
	if d.Trace.Event != nil {
		d.Trace.Event(ctx, call.TraceEvent{At: call.TraceReceived, Tool: r.In.Tool})
	}
	c, refusal := d.Checks.Check(ctx, r)
	r.In.OnlyWaits()
	switch {
	case refusal == nil:
		d.admission.Admit(ctx, c, call.State{})
	case refusal.Unproven: // do not read the log for it; another copy may be admitted
		d.Answers.Refuse(ctx, r, refusal.Stage, refusal.Error, !answer.Stands(refusal.Error.Code))
	default:
		d.admission.Deny(ctx, r, refusal)
	}
}

// Observe handles an event of the call log. Followers call it for every event, in the order of each partition. It
// updates the watched deadlines, and answers callers that wait in this dispatcher. It recovers from a panic and skips
// the event, because the event would make all dispatchers panic.
func (d *Dispatcher) Observe(ctx context.Context, kind call.Kind, attempt int, s call.State) {
	defer func() {
		if p := recover(); p != nil {
			d.Panicked("an event of call "+s.ID, p)
		}
	}()
	d.Deadlines.Observe(kind, attempt, s)
	if _, ok := s.Attempt(attempt); ok && kind == call.Decided {
		d.Answers.Tell(ctx, s, attempt)
	}
}
