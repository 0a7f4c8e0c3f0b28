package heartbeat

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// AbsenceMonitor records since when a pool has had no running executor. It reads the newest heartbeat of each watched
// pool at least twice within the lifetime of a heartbeat, so it misses none. Its methods are safe for concurrent use.
type AbsenceMonitor struct {
	pools *Store
	now   func() time.Time // bus time

	mu    sync.Mutex
	known map[string]*poolPresence
}

// poolPresence is the state of one pool. All times are bus time.
type poolPresence struct {
	from  time.Time // it was read without a gap since then, and heartbeats were settled
	lived time.Time // time of the newest heartbeat; zero: none was seen
	at    time.Time // time of the newest read
	// unsettled means that at the newest read, some running executors may not have sent a heartbeat since an interruption
	// of the connection.
	unsettled bool
	whole     time.Time // it was read without a gap since then, over one connection
	epoch     time.Time // when that connection began
	steps     int       // that the executor of the newest heartbeat pulls; 0: not known
}

// NewAbsenceMonitor returns a monitor of the watched pools. It reads nothing before [AbsenceMonitor.Run] or
// [AbsenceMonitor.Look] is called. now returns bus time.
func NewAbsenceMonitor(pools *Store, now func() time.Time, watched ...string) *AbsenceMonitor {
	a := &AbsenceMonitor{pools: pools, now: now, known: map[string]*poolPresence{}}
	for _, pool := range watched {
		a.known[pool] = &poolPresence{}
	}
	return a
}

// Run calls [AbsenceMonitor.Look] several times within the lifetime of a heartbeat, until ctx ends.
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

// Look reads the newest heartbeat of every watched pool: those given to [NewAbsenceMonitor] and those of earlier calls
// of other methods.
func (a *AbsenceMonitor) Look(ctx context.Context) {
	for _, pool := range a.all() {
		_ = a.look(ctx, pool) // the next read detects the gap
	}
}

func (a *AbsenceMonitor) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.known))
}

// lookTime is the time limit of one read.
const lookTime = time.Second

// look reads the newest heartbeat of a pool.
func (a *AbsenceMonitor) look(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	settled, epoch, at := a.pools.settled(), a.pools.uninterruptedSince(), a.now()
	lived, said, err := a.pools.LastAlive(ctx, pool)
	if err != nil {
		return err
	}
	settled = a.pools.settled() && settled // the answer may be from a server that has just restarted
	if !epoch.Equal(a.pools.uninterruptedSince()) {
		epoch = time.Time{} // the next read begins a new one
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.saw(pool, at, lived, settled, epoch)
	if steps, known := said.Pulls(); known && !lived.IsZero() {
		k.steps = steps
	}
	return nil
}

// saw records the result of a read: when it was done, the time of the newest heartbeat, and when the connection began.
// The caller holds a.mu.
func (a *AbsenceMonitor) saw(pool string, at, lived time.Time, settled bool, epoch time.Time) *poolPresence {
	k := a.known[pool]
	if k == nil {
		k = &poolPresence{}
		a.known[pool] = k
	}
	if k.at.Sub(at) > a.pools.ttl/2 { // the server's clock was set back
		*k = poolPresence{steps: k.steps}
	}
	gap := at.Sub(k.at) > a.pools.ttl/2
	if !settled || k.unsettled || gap {
		k.from = at
	}
	if gap || !epoch.Equal(k.epoch) {
		k.whole, k.epoch = at, epoch
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

// Steps returns how many steps the executor of the newest heartbeat of the pool pulls, see [Heartbeat.Pulls]. It is 0
// if that is not known.
func (a *AbsenceMonitor) Steps(pool string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.known[pool]; k != nil {
		return k.steps
	}
	return 0
}

// AbsentSince returns the bus time of the newest heartbeat of the pool, or, if there was none, of the start of the
// monitoring minus the lifetime of a heartbeat. It is zero if that is not known. It then adds the pool to the watched
// ones.
func (a *AbsenceMonitor) AbsentSince(pool string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[pool]
	if k == nil {
		a.known[pool] = &poolPresence{} // watch it from now on
		return time.Time{}
	}
	if k.from.IsZero() || a.now().Sub(k.at) > a.pools.ttl {
		return time.Time{}
	}
	return k.quiet(a.pools.ttl)
}

// quiet returns the time since which there is no heartbeat. If the first read found none, there was none for the
// lifetime of a heartbeat before.
func (k *poolPresence) quiet(ttl time.Duration) time.Time {
	if from := k.from.Add(-ttl); from.After(k.lived) {
		return from
	}
	return k.lived
}

// livesOn is how much longer than the lifetime of its heartbeat an executor may consider its lease valid: lifetimes are
// rounded to seconds, and clocks differ slightly.
const livesOn = time.Second

// WasAbsentAt reports whether it is certain that no executor of the pool was running at the given bus time or has
// started since. An executor that starts later claims the work that was stored before that time. WasAbsentAt reads the
// newest heartbeat unless the monitor has read it since that time.
func (a *AbsenceMonitor) WasAbsentAt(ctx context.Context, pool string, at time.Time) bool {
	deserted, looked := a.absentAt(pool, at)
	if !deserted || looked { // usually executors run, and no read is needed
		return deserted
	}
	if a.look(ctx, pool) != nil {
		return false
	}
	deserted, looked = a.absentAt(pool, at)
	return deserted && looked
}

// startSlack is an upper bound of the error in an executor's comparison of its start with the time when work was
// stored.
const startSlack = 200 * time.Millisecond

// absentAt returns whether the pool was absent at the given time by what is known now, and whether it was read since
// then.
func (a *AbsenceMonitor) absentAt(pool string, at time.Time) (absentAt, looked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[pool]
	if k == nil || k.from.IsZero() {
		return false, false
	}
	return k.quiet(a.pools.ttl).Add(a.pools.ttl + livesOn).Before(at), k.at.After(at.Add(startSlack))
}

// SawNone reports whether reads without a gap, over one connection, have found no executor of the pool from before the
// given bus time until now, and its last one was gone by then. Unlike WasAbsentAt it may say so as soon as the monitor
// runs. It is weaker: an executor may run whose heartbeats a server lost before the connection began. SawNone reads the
// newest heartbeat.
func (a *AbsenceMonitor) SawNone(ctx context.Context, pool string, since time.Time) bool {
	if none, _ := a.noneSince(pool, since); !none || a.look(ctx, pool) != nil {
		return false
	}
	none, looked := a.noneSince(pool, since)
	return none && looked
}

// noneSince returns SawNone by what is known now, and whether the pool was read since then.
func (a *AbsenceMonitor) noneSince(pool string, since time.Time) (none, looked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[pool]
	if k == nil || k.whole.IsZero() {
		return false, false
	}
	gone := k.lived.Add(a.pools.ttl + livesOn)
	return k.whole.Before(since) && gone.Before(since), k.at.After(since.Add(startSlack))
}
