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

// deadlineWatch keeps the deadlines of the open attempts of one partition of the log, nearest first. It holds every
// attempt that is open anywhere, so that any dispatcher can end the calls of a dead one. Each partition has
// its own: one that takes no writes keeps nobody else waiting.
type deadlineWatch struct {
	now  func() time.Time
	wake chan struct{} // the nearest deadline may have changed

	mu    sync.Mutex
	due   timer.Heap[*openAttempt]
	byKey map[call.AttemptKey]*openAttempt // undecided attempts
	order []*openAttempt                   // the same as the log has them, and decided ones behind the first
	over  int                              // how many in order are decided
	armed time.Time                        // until then nobody sees to what is due
	// queued are the attempts that nobody has claimed, by pool.
	queued map[string]*poolQueue
	seen   uint64 // position in the log up to which they are known
}

// openAttempt is an open attempt and when to end it.
type openAttempt struct {
	place    timer.Entry[*openAttempt] // among those that are due, by bus time; in none while it is worked on
	tool, id string
	attempt  int
	admitted uint64
	done     bool // decided
	claimed  bool
	pool     *poolQueue     // where it waits; nil where it is claimed, or where that is not known
	early    time.Time      // not before this time is it ended for want of executors, in bus time
	tried    bool           // to end it: not again
	opened   *flow.Counters // where it is counted
	counter  *flow.Counter  // nil where it is not
}

func newDeadlineWatch(now func() time.Time) *deadlineWatch {
	return &deadlineWatch{
		now: now, wake: make(chan struct{}, 1), byKey: map[call.AttemptKey]*openAttempt{}, queued: map[string]*poolQueue{},
	}
}

// open watches an attempt, unless it is watched already. One that the log has not just shown is not watched where the
// log was read beyond its admission: it is decided then. A log that was lost or has expired may have been opened
// again: then the later admission counts.
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
	// The names are parts of a whole message, which must not be kept for them.
	names := tool + id
	d := &openAttempt{tool: names[:len(tool)], id: names[len(tool):], attempt: a.N, admitted: a.Admitted}
	d.place.Of = d
	g.byKey[call.AttemptKey{ID: d.id, N: a.N}] = d
	g.insert(d)
	g.endAt(d, at)
}

// insert puts d in its place in the log: a caller that asks for an attempt may come before
// the follower does.
// Callers hold g.mu.
func (g *deadlineWatch) insert(d *openAttempt) {
	at := len(g.order)
	for at > 0 && g.order[at-1].admitted > d.admitted {
		at--
	}
	g.order = slices.Insert(g.order, at, d)
}

// close ends the watch over an attempt, admitted at a position of the log, that is decided or gone.
func (g *deadlineWatch) close(id string, attempt int, admitted uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.byKey[call.AttemptKey{ID: id, N: attempt}]; d != nil && d.admitted == admitted {
		g.remove(d)
	}
}

// remove forgets d. Callers hold g.mu.
func (g *deadlineWatch) remove(d *openAttempt) {
	d.done = true
	d.uncount()
	g.unqueue(d)
	delete(g.byKey, call.AttemptKey{ID: d.id, N: d.attempt})
	g.due.Remove(&d.place)
	g.over++
	for len(g.order) > 0 && g.order[0].done {
		g.order[0] = nil
		g.order = g.order[1:]
		g.over--
	}
	if g.over > len(g.order)/2 { // an attempt may be open for an hour, with millions behind it
		g.order = slices.DeleteFunc(g.order, func(d *openAttempt) bool { return d.done })
		g.over = 0
	}
}

// saw notes how far the log has been read.
func (g *deadlineWatch) saw(seq uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = max(g.seen, seq)
}

// decided reports whether an attempt that was admitted at a position of the log is known to have
// an outcome.
func (g *deadlineWatch) decided(id string, attempt int, admitted uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.byKey[call.AttemptKey{ID: id, N: attempt}]
	return g.seen >= admitted && (d == nil || d.admitted != admitted)
}

// oldest returns the log position of the first undecided attempt; 0 when there is none.
func (g *deadlineWatch) oldest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		return 0
	}
	return g.order[0].admitted
}

// endAt lets somebody see to d at a time, and wakes nobody who does before it anyway: calls that come one after another
// wake nobody up. Callers hold g.mu.
func (g *deadlineWatch) endAt(d *openAttempt, at time.Time) {
	if g.due.Put(&d.place, at); at.Before(g.armed) {
		g.armed = at
		timer.Notify(g.wake)
	}
}

// next removes and returns the attempts whose time has come, and says how long to wait for the
// one after them.
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

// backup is how long after its deadline this dispatcher ends an attempt. Those that it admitted
// itself it ends at once; others' it leaves alone a little, and differently for every call, so
// that guardians rarely meet. The compare-and-set makes meeting harmless.
func (d *Dispatcher) backup(id string, a call.Attempt) time.Duration {
	if strings.HasPrefix(a.Nonce, d.Instance) {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return d.Backup + time.Duration(h.Sum32()%30)*time.Millisecond
}

// expirers is how many deadlines of a partition are worked on at once, and how many outcomes are told.
const expirers = 32

// Run keeps deadlines and answers waiting callers until ctx ends. All it started has ended when
// it returns.
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
	d.acceptLate(ctx)
	return nil
}

// keepDeadlines keeps those of one partition until ctx ends.
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

// keep calls do whenever the pause is over that it returned, and when it is woken, until ctx ends.
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

// expire ends an attempt whose deadline has passed, and tells its owner what stands. When the
// log cannot be reached it is watched again.
func (d *Dispatcher) expire(ctx context.Context, g *deadlineWatch, job *openAttempt) {
	o, err := d.end(ctx, job, call.TraceBeforeTimeout, call.TimedOut, call.ByDeadline)
	switch {
	case errors.Is(err, outcome.ErrAttemptGone):
		g.close(job.id, job.attempt, job.admitted)
		d.abandon(job)
		return
	case format.Newer(err):
		d.notices.Log(d.Logger, "a deadline is left to dispatchers of a newer build", err)
		g.close(job.id, job.attempt, job.admitted)
		return
	case errors.Is(err, outcome.ErrUnreadable): // it is decided; whoever asks is told that much
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

// ended forgets an attempt that is decided, and tells its owner.
func (d *Dispatcher) ended(ctx context.Context, g *deadlineWatch, job *openAttempt, o outcome.Stored) {
	d.Trace.Emit(ctx, call.TraceAfterDecide, &o.State, job.attempt)
	g.close(job.id, job.attempt, job.admitted)
	if owner := o.Attempt.Owner; owner.Reply != "" {
		d.Replies.Outcome(owner.ReplyAddress(), o.For(owner.CallID, false))
	}
}

// abandon forgets the callers that wait here for an attempt that the log does not hold any more: there is
// nothing to tell, and their libraries say so.
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

// How long after a failed try a deadline is worked on again; one that panicked is logged at length every time.
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

// deadlinesOf returns that of a partition.
func (d *Dispatcher) deadlinesOf(p subjects.Partition) *deadlineWatch { return d.deadlines[p] }

// ReplayFrom returns the position in a partition of the log from which a new guardian would have to read to
// find all open attempts; 0 when there are none.
func (d *Dispatcher) ReplayFrom(p subjects.Partition) uint64 { return d.deadlinesOf(p).oldest() }
