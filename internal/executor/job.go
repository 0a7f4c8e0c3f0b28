package executor

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// job is one work message in progress. Handle owns it; only kill, and what belongs to it, is shared.
type job struct {
	executor   *Executor
	ctx        context.Context // ends when the executor gives up, not at the deadline
	shared     sharedContext   // of ctx
	message    Message
	state      call.State
	attempt    int
	delivery   call.WorkDelivery
	claim      string // nonce of our claim; "" without one
	fence      uint64
	work       work
	unreadable error // why work is empty
	inputRef   *envelope.PayloadRef
	input      *flow.Reservation // of a large input in memory; nil without one
	earlier    []call.Outcome    // none where the body cannot be read
	enqueued   time.Time         // bus time of admission
	started    time.Time         // bus time the tool was started
	recorded   bool              // the record holds the request

	// Of the run.
	adapter  tool.Adapter
	manifest *tool.Manifest
	looks    bool // it is a lookup
	chunks   chunkSink
	observer func(call.TraceEvent) // called when the job ends; may be nil

	abandoned atomic.Bool // the tool does not return: the job is not that goroutine's any more
	killed    atomic.Bool // the log says that the attempt is decided, and the run ends
	mu        sync.Mutex
	run       *timer.Run // of the tool, or of the wait for the record; nil before it
	stream    *timer.Run // stores the chunks of the tool; nil before the first
	running   bool
	since     time.Time // when the tool started; Seek returns it
}

// kill ends the run, or lets it end as soon as it begins.
func (j *job) kill() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.killed.Store(true)
	j.stop()
}

// stop ends the contexts of the job. Callers hold j.mu.
func (j *job) stop() {
	for _, run := range []*timer.Run{j.run, j.stream} {
		if run != nil {
			run.Stop()
		}
	}
}

func (j *job) setRunning() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running, j.since = true, j.started
}

// key is what the job is registered as. The message says it: a log that is gone has no id.
func (j *job) key() call.AttemptKey {
	return call.AttemptKey{ID: j.message.Entry.State.ID, N: j.attempt}
}

// tool is whose load the job is part of.
func (j *job) tool() string { return j.message.Entry.State.Tool }

// begin registers the message. It returns no job when the same attempt is in hand here already,
// or when its tool is not here or has all the runs it may have; notYet lets it come again then.
// Past its deadline it needs no tool any more: the message would come again and again until it expires.
func (e *Executor) begin(ctx context.Context, m Message) (j *job, notYet func()) {
	body, w, err := parse(m.Entry)
	if err != nil { // a build that admits more than this one reads
		e.Logger.Error("unreadable work message", "call", m.Entry.State.ID, "err", err)
	}
	j = &job{
		executor: e, ctx: ctx, message: m, state: m.Entry.State, attempt: m.Entry.Attempt, work: w, unreadable: err,
		earlier: body.Earlier, inputRef: envelope.ParsePayloadRef(body.InputRef), enqueued: m.Entry.Time,
		delivery: call.WorkDelivery{
			Attempt: m.Entry.Attempt, Admitted: m.Entry.State.Seq, Deliveries: m.Deliveries,
			By: e.Instance, Nonce: e.NewNonce(),
			// A claim of our own without a job in hand is one whose run ended without a decision.
			Gone: func(instance string) bool { return instance == e.Instance || e.Liveness.Expired(ctx, instance) },
		},
	}
	j.started = j.enqueued
	a, _ := j.state.Attempt(j.attempt)
	over := !a.Due().After(e.Now())
	e.mu.Lock()
	defer e.mu.Unlock()
	j.shared = e.under(ctx)
	k := j.key()
	if e.running[k] != nil {
		return nil, func() { m.Lease.NakWithDelay(e.Lease) }
	}
	tm, _ := e.Catalog.Get(j.tool(), j.state.Version)
	switch {
	case over:
	case tm == nil:
		e.Logger.Warn("nak: this executor does not have the tool, but its pool does",
			"tool", j.state.Tool, "pool", j.state.Pool, "call", j.state.ID)
		return nil, func() { m.Lease.NakUnstarted(missingDelay) }
	case e.load(j.tool()).runs >= tm.Limits.Concurrency:
		again := e.load(j.tool()).later(e.Now())
		return nil, func() { m.Lease.NakUnstarted(again) }
	}
	e.running[k] = j
	e.load(j.tool()).runs++
	return j, nil
}

// load is what one tool has to do here.
type load struct {
	runs int
	next time.Time // when the next message that finds the tool busy comes again
}

// load returns that of a tool. Callers hold e.mu.
func (e *Executor) load(tool string) *load {
	l := e.loads[tool]
	if l == nil {
		l = &load{}
		e.loads[tool] = l
	}
	return l
}

// later says when a message that finds the tool busy is to come again. Messages come one after the other,
// so that a long queue costs no more than a short one.
func (l *load) later(now time.Time) time.Duration {
	soonest, latest := now.Add(busyDelay), now.Add(busyMost)
	if l.next.Before(soonest) {
		l.next = soonest
	}
	if l.next.After(latest) {
		l.next = latest
	}
	again := l.next.Sub(now)
	l.next = l.next.Add(busySpace)
	return again
}

// end forgets a message that is acknowledged or handed back.
func (e *Executor) end(j *job) {
	j.observed(verdict{})
	j.freeInput()
	j.mu.Lock()
	j.stop()
	j.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, j.key())
	l := e.load(j.tool())
	if l.runs--; l.runs == 0 && l.next.Before(e.Now()) { // nobody waits for it
		delete(e.loads, j.tool())
	}
}

// InProgress says for every message in hand that its work is alive. Call it every third of a lease.
func (e *Executor) InProgress() {
	e.mu.Lock()
	leases := make([]Lease, 0, len(e.running))
	for _, j := range e.running {
		leases = append(leases, j.message.Lease)
	}
	e.mu.Unlock()
	for _, l := range leases {
		l.InProgress()
	}
}

// unharmed, deferred, hands back a message whose handling has panicked, and logs the stack. What becomes of its call is
// up to the log, as if this executor had died: it runs again where it may, and is a poison call when it was claimed
// five times; a side-effectful one that was claimed has an unknown effect.
func (e *Executor) unharmed(m Message) {
	p := recover()
	if p == nil {
		return
	}
	e.Logger.Error("panic", "call", m.Entry.State.ID, "attempt", m.Entry.Attempt, "panic", p,
		"stack", string(debug.Stack()))
	m.Lease.NakWithDelay(retryDelay)
}
