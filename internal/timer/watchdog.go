package timer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Watchdog ends its runs. It is safe for concurrent use.
type Watchdog struct {
	above context.Context

	mu    sync.Mutex
	runs  Heap[*Run]  // that have not ended, by deadline; and guarded ones that have, by the end of their grace
	timer *time.Timer // nil before the first run
	armed time.Time   // when it fires; zero if it does not
}

// NewWatchdog returns a watchdog of runs that end with ctx. It lasts until ctx ends.
func NewWatchdog(ctx context.Context) *Watchdog {
	d := &Watchdog{above: ctx}
	context.AfterFunc(ctx, func() { d.endAll(ctx.Err()) })
	return d
}

// Start returns a run that ends at the deadline. The watchdog calls owner if it abandons the run; owner may be nil if
// nobody guards the run. Stop the run when it is over.
func (d *Watchdog) Start(deadline time.Time, owner Owner) *Run {
	r := &Run{Context: d.above, dog: d, deadline: deadline, owner: owner}
	r.place.Of = r
	d.mu.Lock()
	err := d.above.Err() // endAll may have run
	if err == nil && !deadline.After(time.Now()) {
		err = context.DeadlineExceeded
	}
	if r.ended = err != nil; !r.ended {
		d.look(r, deadline)
	}
	d.mu.Unlock()
	if err != nil {
		r.finish(err)
	}
	return r
}

// look has a run looked at, at a time. Callers hold d.mu.
func (d *Watchdog) look(r *Run, at time.Time) {
	d.runs.Put(&r.place, at)
	if d.armed.IsZero() || at.Before(d.armed) {
		d.arm(at)
	}
}

func (d *Watchdog) arm(at time.Time) {
	if d.armed = at; d.timer == nil {
		d.timer = time.AfterFunc(time.Until(at), d.tick)
		return
	}
	d.timer.Reset(time.Until(at))
}

// tick ends the runs whose deadline has passed, and abandons those whose grace has.
func (d *Watchdog) tick() {
	var ended, lost []*Run
	d.mu.Lock()
	now := time.Now()
	for r, ok := d.runs.Due(now); ok; r, ok = d.runs.Due(now) {
		if r.ended {
			lost = append(lost, r)
			continue
		}
		d.end(r, now)
		ended = append(ended, r)
	}
	d.armed = time.Time{}
	if d.runs.Len() > 0 {
		d.arm(d.runs.Next(now.Add(time.Hour)))
	}
	d.mu.Unlock()
	for _, r := range ended {
		r.finish(context.DeadlineExceeded)
	}
	for _, r := range lost {
		r.abandon(Guest.Abandon)
	}
}

// end has a run that ends looked at after its grace, if it is guarded. Callers hold d.mu.
func (d *Watchdog) end(r *Run, now time.Time) {
	r.ended = true
	if r.guest == nil {
		d.runs.Remove(&r.place)
		return
	}
	d.look(r, now.Add(r.grace))
}

func (d *Watchdog) endAll(err error) {
	d.mu.Lock()
	all := slices.Collect(d.runs.All())
	all = slices.DeleteFunc(all, func(r *Run) bool { return r.ended })
	for _, r := range all {
		d.end(r, time.Now())
	}
	d.mu.Unlock()
	for _, r := range all {
		r.finish(err)
	}
}
