package timer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Watchdog ends its runs at their deadlines and abandons those that do not return. It is safe for concurrent use.
type Watchdog struct {
	above context.Context

	mu    sync.Mutex
	runs  Heap[*Run]  // runs that have not ended, by deadline, and guarded runs that have ended, by the end of their grace
	timer *time.Timer // nil before the first run
	armed time.Time   // when timer fires; zero if it is not armed
}

// NewWatchdog returns a watchdog whose runs end with ctx at the latest.
func NewWatchdog(ctx context.Context) *Watchdog {
	d := &Watchdog{above: ctx}
	context.AfterFunc(ctx, func() { d.endAll(ctx.Err()) })
	return d
}

// Start returns a run that ends at the deadline. The watchdog calls owner if it abandons the run. owner may be nil if
// the run is never guarded. The caller must call Run.Stop when the run is over.
func (d *Watchdog) Start(deadline time.Time, owner Owner) *Run {
	r := &Run{Context: d.above, dog: d, deadline: deadline, owner: owner}
	r.place.Of = r
	d.mu.Lock()
	err := d.above.Err() // if ctx has ended, endAll may have run already
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

// look makes tick process a run at a time. The caller holds d.mu.
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

// tick ends the runs whose deadline has passed, and abandons those whose grace has passed.
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

// end marks a run as ended. A guarded run then has its grace to return. The caller holds d.mu.
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
