package deadline

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Watches tracks the open attempts of all partitions of the log, by partition. Make it with [NewWatches].
type Watches []*watch

// NewWatches returns the Watches of a log with this number of partitions, of which 0 means 1. now is the bus time.
func NewWatches(partitions int, now func() time.Time) (all Watches) {
	for range max(1, partitions) {
		all = append(all, newWatch(now))
	}
	return all
}

// Decided reports whether an attempt is known to have an outcome. admitted is the position of its request event.
func (w Watches) Decided(admitted call.Position, id string, attempt int) bool {
	return w[admitted.Partition].decided(id, attempt, admitted.Seq)
}

// ReplayFrom returns the sequence from which a new dispatcher must read a partition of the log to find all open
// attempts, or 0 if there are none.
func (w Watches) ReplayFrom(p subjects.Partition) uint64 { return w[p].oldest() }

// Place is an open attempt, as it is watched, and its place.
type Place struct {
	At       envelope.LockKillPosition
	Tool, ID string
	Attempt  int
}

// maxLook is the largest number of attempts of a partition that one look for those of an owner passes.
const maxLook = 10_000

// OpenAfter returns up to most open attempts after a place, in the order of their places. They are those of an actor,
// of a tenant if its Actor is "", or all if of is zero. The caller must check the owner of each, because the watch
// may not know it yet. next is the place up to which it looked, and more reports whether there may be others after
// it.
func (w Watches) OpenAfter(after envelope.LockKillPosition, most int, of subjects.Owner) (
	page []Place, next envelope.LockKillPosition, more bool) {
	next = after
	for part := max(0, after.Part); part < len(w) && !more; part++ {
		if part != after.Part {
			next = envelope.LockKillPosition{Part: part}
		}
		page, next, more = w[part].openAfter(next, page, most, of)
	}
	return page, next, more
}

func (w *watch) openAfter(next envelope.LockKillPosition, page []Place, most int, of subjects.Owner) (
	_ []Place, _ envelope.LockKillPosition, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := sort.Search(len(w.order), func(i int) bool { return w.order[i].admitted > next.Seq })
	for n, o := range w.order[first:] {
		if o.done {
			continue
		}
		if len(page) == most || n == maxLook {
			return page, next, true
		}
		next.Seq = o.admitted
		if of == (subjects.Owner{}) || o.counter == nil || o.counter.Within(of.Tenant, of.Actor) {
			page = append(page, Place{next, o.tool, o.id, o.attempt})
		}
	}
	return page, next, false
}

// watch tracks the deadlines of all open attempts of one partition of the log, including those that other
// dispatchers admitted, so that any dispatcher can end the attempts of one that died. Each partition has its own, so
// that a partition that takes no writes does not delay the others.
type watch struct {
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
	place    timer.Entry[*openAttempt] // in watch.due, by bus time; not there while expire works on it
	tool, id string
	attempt  int
	admitted uint64
	at       time.Time // of its admission, in bus time
	done     bool      // decided
	claimed  bool
	pool     *poolQueue     // pool in which it waits; nil if it is claimed or that is not known
	early    time.Time      // earliest time, in bus time, to end it because its pool or its build is absent
	build    *openBuild     // nil until watch has set it
	opened   *flow.Counters // counters that hold counter
	counter  *flow.Counter  // nil if the attempt is not counted

	triedPool, triedBuild bool // ending it for an absent pool, or build, was tried; do not try again
}

func newWatch(now func() time.Time) *watch {
	return &watch{
		now: now, wake: make(chan struct{}, 1), byKey: map[call.AttemptKey]*openAttempt{}, queued: map[string]*poolQueue{},
		builds: map[build]*openBuild{},
	}
}

// open starts to watch an attempt, unless it is watched already. shown means that the follower has just read an event
// of the attempt. If it is false and the follower has read beyond the request event, the attempt has been decided, and
// open does nothing. If a log was lost or has expired, and was opened again, the new attempt replaces the old one.
func (w *watch) open(tool, id string, a call.Attempt, backup time.Duration, shown bool) {
	at := a.Due().Add(backup)
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.byKey[call.AttemptKey{ID: id, N: a.N}]
	if have != nil && have.admitted != a.Admitted {
		w.remove(have)
		have = nil
	}
	if have != nil || !shown && w.seen >= a.Admitted {
		return
	}
	// Copy the names: they share the memory of a whole message.
	names := tool + id
	d := &openAttempt{tool: names[:len(tool)], id: names[len(tool):], attempt: a.N, admitted: a.Admitted, at: a.At.Time()}
	d.place.Of = d
	w.byKey[call.AttemptKey{ID: d.id, N: a.N}] = d
	w.insert(d)
	w.endAt(d, at)
}

// insert adds d to order. A caller may make this dispatcher watch an attempt before its follower reads it, so d is not
// always the last one. Callers hold w.mu.
func (w *watch) insert(d *openAttempt) {
	at := len(w.order)
	for at > 0 && w.order[at-1].admitted > d.admitted {
		at--
	}
	w.order = slices.Insert(w.order, at, d)
}

// close ends the watch of an attempt that is decided or no longer in the log. admitted is the sequence of its request
// event.
func (w *watch) close(id string, attempt int, admitted uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.byKey[call.AttemptKey{ID: id, N: attempt}]; d != nil && d.admitted == admitted {
		w.remove(d)
	}
}

// remove removes d from all structures. Callers hold w.mu.
func (w *watch) remove(d *openAttempt) {
	d.done = true
	d.uncount()
	w.unqueue(d)
	w.unbuild(d)
	delete(w.byKey, call.AttemptKey{ID: d.id, N: d.attempt})
	w.due.Remove(&d.place)
	w.over++
	for len(w.order) > 0 && w.order[0].done {
		w.order[0] = nil
		w.order = w.order[1:]
		w.over--
	}
	if w.over > len(w.order)/2 { // the first attempt may stay open for long, with millions after it
		w.order = slices.DeleteFunc(w.order, func(d *openAttempt) bool { return d.done })
		w.over = 0
	}
}

// saw records that the follower has read the log up to seq.
func (w *watch) saw(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = max(w.seen, seq)
}

// decided reports whether an attempt is known to have an outcome. admitted is the sequence of its request event.
func (w *watch) decided(id string, attempt int, admitted uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.byKey[call.AttemptKey{ID: id, N: attempt}]
	return w.seen >= admitted && (d == nil || d.admitted != admitted)
}

// oldest returns the sequence of the request event of the first undecided attempt, or 0 if there is none.
func (w *watch) oldest() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) == 0 {
		return 0
	}
	return w.order[0].admitted
}

// endAt makes d due at a time. It wakes keepDeadlines only if the next check is later than that: later deadlines of new
// calls usually wake nobody. Callers hold w.mu.
func (w *watch) endAt(d *openAttempt, at time.Time) {
	if w.due.Put(&d.place, at); at.Before(w.armed) {
		w.armed = at
		timer.Notify(w.wake)
	}
}

// next removes and returns the due attempts, and returns the time until the next one is due.
func (w *watch) next() (now []*openAttempt, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.now()
	for d, ok := w.due.Due(t); ok; d, ok = w.due.Due(t) {
		now = append(now, d)
	}
	w.armed = w.due.Next(t.Add(time.Hour))
	return now, w.armed.Sub(t)
}

func (w *watch) retry(job *openAttempt, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if job.done {
		return
	}
	w.endAt(job, w.now().Add(after))
}

// count counts a watched attempt for its tenant and actor, until uncount.
func (w *watch) count(o *flow.Counters, s call.State, a call.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	if d != nil && d.admitted == a.Admitted && d.counter == nil {
		from := call.Sender{Tenant: s.Tenant, Actor: a.Owner.Actor}
		item := flow.Item{ID: s.ID, Request: a.Owner.CallID}
		d.opened, d.counter = o, o.Add(item, flow.Sender(from.Family()), from.Actor, time.Now())
	}
}

// uncount ends the count of the attempt. Callers hold the mu of its watch.
func (o *openAttempt) uncount() {
	if o.counter != nil {
		o.opened.Remove(o.counter, time.Now())
		o.counter = nil
	}
}
