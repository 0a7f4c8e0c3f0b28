package dispatcher

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// deadlineWatch tracks the deadlines of all open attempts of one partition of the log, including those that other
// dispatchers admitted, so that any dispatcher can end the attempts of one that died. Each partition has its own, so
// that a partition that takes no writes does not delay the others.
type deadlineWatch struct {
	now  func() time.Time
	wake chan struct{} // signals that the earliest deadline may have changed

	mu    sync.Mutex
	due   timer.Heap[*openAttempt]
	byKey map[call.AttemptKey]*openAttempt // undecided attempts
	order []*openAttempt                   // the same in log order; after the first, decided ones may be left
	over  int                              // number of decided attempts in order
	armed time.Time                        // time of the next check for due attempts
	// queued counts the attempts without a claim, by pool.
	queued map[string]*poolQueue
	builds map[build]*openBuild // of undecided attempts
	seen   uint64               // sequence up to which the log has been read
}

// openAttempt is an open attempt with its place in the heap of due times.
type openAttempt struct {
	place    timer.Entry[*openAttempt] // in deadlineWatch.due, by bus time; not there while expire works on it
	tool, id string
	attempt  int
	admitted uint64
	done     bool // decided
	claimed  bool
	pool     *poolQueue     // pool in which it waits; nil if it is claimed or that is not known
	early    time.Time      // earliest time, in bus time, to end it because its pool or its build is absent
	tried    bool           // ending it for an absent pool was tried; do not try again
	build    *openBuild     // nil until watch has set it
	unbuilt  bool           // ending it for want of its build was tried; do not try again
	opened   *flow.Counters // counters that hold counter
	counter  *flow.Counter  // nil if the attempt is not counted
}

func newDeadlineWatch(now func() time.Time) *deadlineWatch {
	return &deadlineWatch{
		now: now, wake: make(chan struct{}, 1), byKey: map[call.AttemptKey]*openAttempt{}, queued: map[string]*poolQueue{},
		builds: map[build]*openBuild{},
	}
}

// open starts to watch an attempt, unless it is watched already. shown means that the follower has just read an event
// of the attempt. If it is false and the follower has read beyond the request event, the attempt has been decided, and
// open does nothing. If a log was lost or has expired, and was opened again, the new attempt replaces the old one.
func (g *deadlineWatch) open(tool, id string, a call.Attempt, backup time.Duration, shown bool) {
	at := a.Due().Add(backup)
	g.mu.Lock()
	defer g.mu.Unlock()
	have := g.byKey[call.AttemptKey{ID: id, N: a.N}]
	if have != nil && have.admitted != a.Admitted {
		g.remove(have)
		have = nil
	}
	if have != nil || !shown && g.seen >= a.Admitted {
		return
	}
	// Copy the names: they share the memory of a whole message.
	names := tool + id
	d := &openAttempt{tool: names[:len(tool)], id: names[len(tool):], attempt: a.N, admitted: a.Admitted}
	d.place.Of = d
	g.byKey[call.AttemptKey{ID: d.id, N: a.N}] = d
	g.insert(d)
	g.endAt(d, at)
}

// insert adds d to order. A caller may make this dispatcher watch an attempt before its follower reads it, so d is not
// always the last one. Callers hold g.mu.
func (g *deadlineWatch) insert(d *openAttempt) {
	at := len(g.order)
	for at > 0 && g.order[at-1].admitted > d.admitted {
		at--
	}
	g.order = slices.Insert(g.order, at, d)
}

// close ends the watch of an attempt that is decided or no longer in the log. admitted is the sequence of its request
// event.
func (g *deadlineWatch) close(id string, attempt int, admitted uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.byKey[call.AttemptKey{ID: id, N: attempt}]; d != nil && d.admitted == admitted {
		g.remove(d)
	}
}

// remove removes d from all structures. Callers hold g.mu.
func (g *deadlineWatch) remove(d *openAttempt) {
	d.done = true
	d.uncount()
	g.unqueue(d)
	g.unbuild(d)
	delete(g.byKey, call.AttemptKey{ID: d.id, N: d.attempt})
	g.due.Remove(&d.place)
	g.over++
	for len(g.order) > 0 && g.order[0].done {
		g.order[0] = nil
		g.order = g.order[1:]
		g.over--
	}
	if g.over > len(g.order)/2 { // the first attempt may stay open for long, with millions after it
		g.order = slices.DeleteFunc(g.order, func(d *openAttempt) bool { return d.done })
		g.over = 0
	}
}

// saw records that the follower has read the log up to seq.
func (g *deadlineWatch) saw(seq uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = max(g.seen, seq)
}

// decided reports whether an attempt is known to have an outcome. admitted is the sequence of its request event.
func (g *deadlineWatch) decided(id string, attempt int, admitted uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.byKey[call.AttemptKey{ID: id, N: attempt}]
	return g.seen >= admitted && (d == nil || d.admitted != admitted)
}

// oldest returns the sequence of the request event of the first undecided attempt, or 0 if there is none.
func (g *deadlineWatch) oldest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		return 0
	}
	return g.order[0].admitted
}

// endAt makes d due at a time. It wakes keepDeadlines only if the next check is later than that: later deadlines of new
// calls usually wake nobody. Callers hold g.mu.
func (g *deadlineWatch) endAt(d *openAttempt, at time.Time) {
	if g.due.Put(&d.place, at); at.Before(g.armed) {
		g.armed = at
		timer.Notify(g.wake)
	}
}

// next removes and returns the due attempts, and returns the time until the next one is due.
func (g *deadlineWatch) next() (now []*openAttempt, pause time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.now()
	for d, ok := g.due.Due(t); ok; d, ok = g.due.Due(t) {
		now = append(now, d)
	}
	g.armed = g.due.Next(t.Add(time.Hour))
	return now, g.armed.Sub(t)
}

// backup returns the delay after its deadline with which this dispatcher ends an attempt: 0 for attempts that it
// admitted itself, and otherwise Options.Backup plus 0 to 29 ms that depend on the id. The compare-and-set makes it
// harmless if two dispatchers end the same attempt.
func (d *Dispatcher) backup(id string, a call.Attempt) time.Duration {
	if strings.HasPrefix(a.Nonce, d.Instance) {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return d.Backup + time.Duration(h.Sum32()%30)*time.Millisecond
}

// expirers is the number of deadlines per partition that are handled at once, and of goroutines that send outcomes to
// waiting callers.
const expirers = 32

// Run enforces deadlines and answers waiting callers until ctx ends. Its goroutines have ended when it returns.
func (d *Dispatcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range expirers {
		wg.Go(func() { d.tellAll(ctx) })
	}
	for range recorders {
		wg.Go(func() { d.recordAll(ctx) })
	}
	for _, g := range d.deadlines {
		wg.Go(func() { d.keepDeadlines(ctx, g) })
	}
	wg.Go(func() { d.keepJoinerDeadlines(ctx) })
	wg.Go(func() { d.endPoolAbsent(ctx) })
	wg.Go(func() { d.endBuildAbsent(ctx) })
	d.acceptLate(ctx)
	return nil
}

// keepDeadlines ends the attempts of one partition at their deadlines, until ctx ends.
func (d *Dispatcher) keepDeadlines(ctx context.Context, g *deadlineWatch) {
	crew := flow.NewBoundedWorkerPool(expirers, func(job *openAttempt) {
		if !d.safely("a deadline", func() { d.expire(ctx, g, job) }) {
			g.retry(job, retryPanic)
		}
	})
	defer crew.Wait()
	keep(ctx, g.wake, func() time.Duration {
		now, pause := g.next()
		for _, job := range now {
			if ctx.Err() == nil {
				crew.Start(job)
			}
		}
		return pause
	})
}

// keep calls do at once, after each pause that do returns, and when woken, until ctx ends.
func keep(ctx context.Context, wake <-chan struct{}, do func() (pause time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(do())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		}
	}
}

// expire ends an attempt whose deadline has passed, and sends its owner the outcome. If the log cannot be reached, it
// tries again later.
func (d *Dispatcher) expire(ctx context.Context, g *deadlineWatch, job *openAttempt) {
	o, err := d.end(ctx, job, call.TraceBeforeTimeout, ending{cause: call.TimedOut, by: call.ByDeadline})
	switch {
	case errors.Is(err, outcome.ErrAttemptGone):
		g.close(job.id, job.attempt, job.admitted)
		d.abandon(job)
		return
	case format.Newer(err):
		d.notices.Log(d.Logger, "a deadline is left to dispatchers of a newer build", err)
		g.close(job.id, job.attempt, job.admitted)
		return
	case errors.Is(err, outcome.ErrUnreadable): // decided: callers that ask get an error that says so
		d.Logger.Warn("outcome not read", "call", job.id, "err", err)
		g.close(job.id, job.attempt, job.admitted)
		return
	case err != nil:
		if ctx.Err() == nil {
			d.Logger.Warn("deadline not decided yet", "call", job.id, "err", err)
			g.retry(job, retryExpiry)
		}
		return
	}
	d.ended(ctx, g, job, o)
}

// ended stops watching a decided attempt, and sends its owner the outcome.
func (d *Dispatcher) ended(ctx context.Context, g *deadlineWatch, job *openAttempt, o outcome.Stored) {
	d.Trace.Emit(ctx, call.TraceAfterDecide, &o.State, job.attempt)
	g.close(job.id, job.attempt, job.admitted)
	if owner := o.Attempt.Owner; owner.Reply != "" {
		d.Replies.Outcome(owner.ReplyAddress(), o.For(owner.CallID, false))
	}
}

// abandon removes the callers that wait here for an attempt that is no longer in the log. They get no answer: their
// clients report that at the deadline.
func (d *Dispatcher) abandon(job *openAttempt) {
	l := d.known(job.tool, job.id)
	if l == nil {
		return
	}
	l.mu.Lock()
	if a, ok := l.state.Attempt(job.attempt); ok && a.Admitted == job.admitted {
		delete(l.waiting, job.attempt)
	}
	l.mu.Unlock()
	d.retire(l)
}

// Pauses before a failed deadline is handled again. The pause after a panic is longer, because each one is logged with
// its stack.
const (
	retryExpiry = 50 * time.Millisecond
	retryPanic  = time.Second
)

func (g *deadlineWatch) retry(job *openAttempt, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if job.done {
		return
	}
	g.endAt(job, g.now().Add(after))
}

// deadlinesOf returns the deadlineWatch of the partition of a position.
func (d *Dispatcher) deadlinesOf(p call.Position) *deadlineWatch { return d.deadlines[p.Partition] }

// ReplayFrom returns the sequence from which a new dispatcher must read a partition of the log to find all open
// attempts, or 0 if there are none.
func (d *Dispatcher) ReplayFrom(p subjects.Partition) uint64 { return d.deadlines[p].oldest() }
