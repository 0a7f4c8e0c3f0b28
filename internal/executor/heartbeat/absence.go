package heartbeat

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// AbsenceMonitor knows since when nobody of a pool has lived, as far as it has watched. It looks again and again, at
// least twice within the life of a heartbeat, so that none comes and expires unseen. Its methods are safe for
// concurrent use.
type AbsenceMonitor struct {
	pools *Store
	now   func() time.Time // bus time

	mu    sync.Mutex
	known map[string]*poolPresence
}

// poolPresence is what is known of one pool, in bus time.
type poolPresence struct {
	from  time.Time // looked at without a gap since then
	lived time.Time // the newest heartbeat that was seen; zero: none
	at    time.Time // of the newest look
	// unsettled says that at the newest look not all who live can have beaten again after an interruption.
	unsettled bool
	overflow  bool // whoever beat last pulls what goes behind
}

// NewAbsenceMonitor returns one that watches the pools; Run must be called for it to go on watching. now is bus time.
func NewAbsenceMonitor(pools *Store, now func() time.Time, watched ...string) *AbsenceMonitor {
	a := &AbsenceMonitor{pools: pools, now: now, known: map[string]*poolPresence{}}
	for _, pool := range watched {
		a.known[pool] = &poolPresence{}
	}
	return a
}

// Run looks at every pool that was named or asked about, until ctx ends.
func (a *AbsenceMonitor) Run(ctx context.Context) {
	tick := time.NewTicker(min(a.pools.ttl/4, time.Second))
	defer tick.Stop()
	for {
		a.Look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks at every pool that was named or asked about once.
func (a *AbsenceMonitor) Look(ctx context.Context) {
	for _, pool := range a.all() {
		_ = a.look(ctx, pool) // a gap is noticed at the next look
	}
}

func (a *AbsenceMonitor) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.known))
}

// lookTime bounds one look.
const lookTime = time.Second

// look reads the newest heartbeat of a pool.
func (a *AbsenceMonitor) look(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	settled, at := a.pools.settled(), a.now()
	lived, said, err := a.pools.LastAlive(ctx, pool)
	if err != nil {
		return err
	}
	settled = settled && a.pools.settled() // it may be the answer of a server that has just come back
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.saw(pool, at, lived, settled)
	if !lived.IsZero() && said.Overflow != PullsUnknown {
		k.overflow = said.Overflow == PullsAll
	}
	return nil
}

// saw notes when a look found whom alive. Callers hold a.mu.
func (a *AbsenceMonitor) saw(pool string, at, lived time.Time, settled bool) *poolPresence {
	k := a.known[pool]
	if k == nil {
		k = &poolPresence{}
		a.known[pool] = k
	}
	if !settled || k.unsettled || at.Sub(k.at) > a.pools.ttl/2 {
		k.from = at
	}
	k.unsettled = !settled
	if lived.After(k.lived) {
		k.lived = lived
	}
	if at.After(k.at) {
		k.at = at
	}
	return k
}

// PullsOverflow reports whether executors of the pool pull what goes behind: the one that beat last does. It is false
// where that is not known.
func (a *AbsenceMonitor) PullsOverflow(pool string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[pool]
	return k != nil && k.overflow
}

// AbsentSince returns since when nobody of the pool has lived, in bus time, as of a moment ago: since its newest
// heartbeat, or since it is watched. It is zero where that is not known.
func (a *AbsenceMonitor) AbsentSince(pool string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[pool]
	if k == nil {
		a.known[pool] = &poolPresence{} // from now on it is watched
		return time.Time{}
	}
	if k.from.IsZero() || a.now().Sub(k.at) > a.pools.ttl {
		return time.Time{}
	}
	return k.quiet(a.pools.ttl)
}

// quiet is from when on there is no heartbeat. Nothing found at the first look is nothing in the life of one before.
func (k *poolPresence) quiet(ttl time.Duration) time.Time {
	if from := k.from.Add(-ttl); from.After(k.lived) {
		return from
	}
	return k.lived
}

// livesOn is how much longer than a heartbeat its executor may take itself for alive: leases are rounded to the
// lives of heartbeats, and clocks differ a little.
const livesOn = time.Second

// WasAbsentAt reports whether it is certain that nobody of the pool has lived at a time (in bus time) or since then:
// executors that begin to beat later claim whatever was stored before that time. It looks anew unless it has looked
// since.
func (a *AbsenceMonitor) WasAbsentAt(ctx context.Context, pool string, at time.Time) bool {
	deserted, looked := a.absentAt(pool, at)
	if !deserted || looked { // mostly they live, and nobody needs to look again
		return deserted
	}
	if a.look(ctx, pool) != nil {
		return false
	}
	deserted, looked = a.absentAt(pool, at)
	return deserted && looked
}

// startSlack is more than how long before the start of an executor something may have been stored that it takes
// for stored after it.
const startSlack = 200 * time.Millisecond

// absentAt says what is known by now, and whether the pool was looked at since.
func (a *AbsenceMonitor) absentAt(pool string, at time.Time) (absentAt, looked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[pool]
	if k == nil || k.from.IsZero() {
		return false, false
	}
	return k.quiet(a.pools.ttl).Add(a.pools.ttl + livesOn).Before(at), k.at.After(at.Add(startSlack))
}
