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

// job is one work message in progress. Handle owns it. Other goroutines use only the fields from abandoned on.
type job struct {
	executor     *Executor
	ctx          context.Context // ends when the executor shuts down, not at the deadline
	shared       sharedContext   // of ctx
	message      Message
	state        call.State
	attempt      int
	delivery     call.WorkDelivery
	claim        string // nonce of our claim; "" without one
	fence        uint64
	work         work
	unreadable   error // why work is empty
	inputRef     *envelope.PayloadRef
	input        *flow.Reservation // of a large input in memory; nil without one
	writeTargets call.WriteTargets // of the call; none means that it may write to every target
	earlier      []call.Outcome    // empty if the body cannot be read
	enqueued     time.Time         // bus time of admission
	started      time.Time         // bus time of the start of the tool
	recorded     bool              // the audit record holds the request
	build        *tool.Manifest    // the admitted build of the tool; nil if it is not here
	counted      bool              // among the concurrent runs of the tool
	locked       *envelope.Lock    // stops the call; nil without one

	// The fields below belong to the run.
	adapter  tool.Adapter
	manifest *tool.Manifest
	looks    bool // the run is a lookup
	// validates means that the adapter is asked whether it refuses the call, and the tool has not started
	validates bool
	chunks    chunkSink
	observer  func(call.TraceEvent) // called when the job ends; may be nil
	// traceparent is that of the run's span; "" if no exporter is configured
	traceparent string

	abandoned atomic.Bool // the tool did not return: another goroutine owns the job
	killed    atomic.Bool // the attempt is decided in the log, so the run must end
	mu        sync.Mutex
	run       *timer.Run // of the tool, or of the wait for the audit record; nil before
	stream    *timer.Run // stores the chunks of the tool; nil before the first
	running   bool
	since     time.Time // when the tool started; returned by Locate
}

// kill ends the run. If it has not begun, it ends at once when it begins.
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

// key returns the key of the job in Executor.running. It uses the message, because the state of a log that is gone has
// no id.
func (j *job) key() call.AttemptKey {
	return call.AttemptKey{ID: j.message.Entry.State.ID, N: j.attempt}
}

// tool returns the id of the tool, the key of its load.
func (j *job) tool() string { return j.message.Entry.State.Tool }

// begin registers the message. It returns no job if this executor already handles the attempt or has reached the
// concurrency of the tool; notYet then returns the message to the server. After its deadline an attempt needs no tool,
// so begin does not look for it.
func (e *Executor) begin(ctx context.Context, m Message) (j *job, notYet func()) {
	body, w, err := parse(m.Entry)
	if err != nil { // a newer build admitted it
		e.Logger.Error("unreadable work message", "call", m.Entry.State.ID, "err", err)
	}
	j = &job{
		executor: e, ctx: ctx, message: m, state: m.Entry.State, attempt: m.Entry.Attempt, work: w, unreadable: err,
		writeTargets: body.WriteTargets,
		earlier:      body.Earlier, inputRef: envelope.ParsePayloadRef(body.InputRef), enqueued: m.Entry.Time,
		delivery: call.WorkDelivery{
			Attempt: m.Entry.Attempt, Admitted: m.Entry.State.Seq, Deliveries: m.Deliveries,
			By: e.Instance, Nonce: e.NewNonce(),
			// If this executor has a claim but no job, the run ended without a decision.
			Gone: func(instance string) bool { return instance == e.Instance || e.Liveness.Expired(ctx, instance) },
		},
	}
	j.started = j.enqueued
	a, _ := j.state.Attempt(j.attempt)
	if a.Due().After(e.Now()) {
		j.build = e.admitted(j.state)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	j.shared = e.under(ctx)
	k := j.key()
	if e.running[k] != nil {
		return nil, func() { m.Lease.NakWithDelay(e.Lease) }
	}
	if j.build != nil && !e.stopped(j) { // a call that a lock stops needs no run of the tool
		l := e.load(j.tool())
		if l.runs >= j.build.Limits.Concurrency {
			again := l.later(e.Now())
			return nil, func() { m.Lease.NakUnstarted(again) }
		}
		l.runs++
		j.counted = true
	}
	e.running[k] = j
	return j, nil
}

// load holds the running calls of one tool in this executor.
type load struct {
	runs int
	next time.Time // time at which the next message that finds the tool busy is delivered again
}

// load returns the load of a tool. Callers hold e.mu.
func (e *Executor) load(tool string) *load {
	l := e.loads[tool]
	if l == nil {
		l = &load{}
		e.loads[tool] = l
	}
	return l
}

// later returns the delay for a message that finds the tool busy. Successive messages get successive times, so that a
// long queue causes no more deliveries than a short one.
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

// end removes a message that was acknowledged or returned.
func (e *Executor) end(j *job) {
	j.observed(verdict{})
	j.freeInput()
	j.mu.Lock()
	j.stop()
	j.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, j.key())
	if !j.counted {
		return
	}
	l := e.load(j.tool())
	if l.runs--; l.runs == 0 && l.next.Before(e.Now()) { // no message waits for it
		delete(e.loads, j.tool())
	}
}

// InProgress extends the leases of all messages that are being handled. Call it every third of a lease.
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

// unharmed must be deferred. If handling the message panicked, it logs the stack and returns the message to the server.
// The call continues as if this executor had died: it runs again if its class allows that, becomes a poison call after
// five claims, and has an unknown effect if it is side-effectful and was claimed.
func (e *Executor) unharmed(m Message) {
	p := recover()
	if p == nil {
		return
	}
	e.Logger.Error("panic", "call", m.Entry.State.ID, "attempt", m.Entry.Attempt, "panic", p,
		"stack", string(debug.Stack()))
	m.Lease.NakWithDelay(retryDelay)
}
