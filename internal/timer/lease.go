package timer

import (
	"context"
	"sync/atomic"
	"time"
)

// LeaseTime is how long a process relies on what it has read. With the time that a decision takes, it is below 1 s. So
// a change takes effect everywhere within 1 s, also in a process that was suspended and resumed.
const LeaseTime = 900 * time.Millisecond

// renewal is how long [Lease.Wait] waits for newer knowledge. Usually a lease ended because the process was delayed,
// and newer knowledge follows at once.
const renewal = 300 * time.Millisecond

// Age returns the time since at, by the monotonic clock or by the wall clock, whichever is longer. The monotonic clock
// may stop while a machine sleeps.
func Age(at time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
}

// Lease holds a value that this process knows as of a time. [LeaseTime] after that time nothing is known, until the
// process learns the value again. The zero value knows nothing. It is safe for concurrent use.
type Lease[T any] struct {
	last atomic.Pointer[knowledge[T]]
}

// knowledge is a value as it was at one time. It never changes.
type knowledge[T any] struct {
	value T
	at    time.Time     // when the value was certainly the current one; zero without a value
	newer chan struct{} // closed when there is newer knowledge
}

func (l *Lease[T]) load() *knowledge[T] {
	if k := l.last.Load(); k != nil {
		return k
	}
	l.last.CompareAndSwap(nil, &knowledge[T]{newer: make(chan struct{})})
	return l.last.Load()
}

// Learn states that v was the current value at the given time, by the clock of this process. It ignores what is older
// than the last knowledge. The caller must not change v afterwards.
func (l *Lease[T]) Learn(v T, at time.Time) {
	k := &knowledge[T]{v, at, make(chan struct{})}
	for {
		last := l.load()
		if at.Before(last.at) {
			return
		}
		if l.last.CompareAndSwap(last, k) {
			close(last.newer)
			return
		}
	}
}

// Last returns the last value that the process learned, and as of when. The time is zero if it has learned none.
func (l *Lease[T]) Last() (v T, at time.Time) {
	k := l.load()
	return k.value, k.at
}

// Known returns the value and its age. ok is false if the lease has ended.
func (l *Lease[T]) Known() (v T, age time.Duration, ok bool) {
	return l.load().known()
}

func (k *knowledge[T]) known() (v T, age time.Duration, ok bool) {
	if age = Age(k.at); age > LeaseTime {
		return v, age, false
	}
	return k.value, age, true
}

// Wait returns the value. If the lease has ended, it waits up to 300 ms for newer knowledge. ok is false without any.
// The error is that of ctx.
func (l *Lease[T]) Wait(ctx context.Context) (v T, ok bool, err error) {
	k := l.load()
	if v, _, ok = k.known(); ok {
		return v, true, nil
	}
	late := time.NewTimer(renewal)
	defer late.Stop()
	select {
	case <-k.newer:
		v, _, ok = l.Known()
	case <-late.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return v, ok, err
}
