// Package lock has the safety locks as a process knows them. A [Board] holds the locks, and the time at which they were
// certainly complete. When that is too long ago, nothing may be admitted or started: a lock may have been set since.
// Package lockstore stores locks.
package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// lease is how long after [Board.Learn] the locks of a board count as complete. So a lock takes effect everywhere
// within 1 s, also in a process that was suspended and resumed.
const lease = 900 * time.Millisecond

// moment is how long [Board.Find] waits for newer knowledge. Usually the lease ended because the process was delayed,
// and newer knowledge follows at once.
const moment = 300 * time.Millisecond

// ErrStale means that this process does not know which locks are in force.
var ErrStale = errors.New("the safety locks in force are not known here at present")

// Board holds the safety locks that a process knows. Make one with [NewBoard]. A nil Board has no locks, and is never
// stale. It is safe for concurrent use.
type Board struct {
	known atomic.Pointer[knowledge]
}

// knowledge holds the locks that were in force at one time. It never changes.
type knowledge struct {
	locks []envelope.Lock
	at    time.Time     // when these were certainly all locks
	newer chan struct{} // closed when there is newer knowledge
}

// NewBoard returns a Board that is stale until the first [Board.Learn].
func NewBoard() *Board {
	b := &Board{}
	b.known.Store(&knowledge{newer: make(chan struct{})})
	return b
}

// Learn states that these were all locks in force at the given time, by the clock of this process. It ignores what is
// older than the board. The caller must not change locks afterwards.
func (b *Board) Learn(locks []envelope.Lock, at time.Time) {
	k := &knowledge{locks, at, make(chan struct{})}
	for {
		before := b.known.Load()
		if at.Before(before.at) {
			return
		}
		if b.known.CompareAndSwap(before, k) {
			close(before.newer)
			return
		}
	}
}

// Known returns the locks, and for how long they have been known to be complete. The error is [ErrStale].
func (b *Board) Known() (locks []envelope.Lock, age time.Duration, err error) {
	if b == nil {
		return nil, 0, nil
	}
	k := b.known.Load()
	if age = k.age(); age > lease {
		return nil, age, ErrStale
	}
	return k.locks, age, nil
}

// age returns the time since k was complete, by the monotonic clock or by the wall clock. The monotonic clock may stop
// while a machine sleeps.
func (k *knowledge) age() time.Duration {
	now := time.Now()
	return max(now.Sub(k.at), now.Round(0).Sub(k.at.Round(0)))
}

// Find returns the lock that covers calls of a tool in a lane, or nil. If the board is stale, it waits a moment for
// newer knowledge. The error is [ErrStale], or that of ctx.
func (b *Board) Find(ctx context.Context, tool, lane string) (*envelope.Lock, error) {
	if b == nil {
		return nil, nil
	}
	k := b.known.Load()
	if k.age() > lease {
		if err := k.wait(ctx); err != nil {
			return nil, err
		}
		if k = b.known.Load(); k.age() > lease {
			return nil, ErrStale
		}
	}
	for i := range k.locks {
		if k.locks[i].Covers(tool, lane) {
			return &k.locks[i], nil
		}
	}
	return nil, nil
}

// wait waits a moment for newer knowledge than k.
func (k *knowledge) wait(ctx context.Context) error {
	late := time.NewTimer(moment)
	defer late.Stop()
	select {
	case <-k.newer:
		return nil
	case <-late.C:
		return ErrStale
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Refusal returns the error of a call that a lock stops. It says who set the lock, when and why, and how it is cleared.
func Refusal(l *envelope.Lock) *envelope.Error {
	message := fmt.Sprintf("%s locked by %s since %s: %s", is(l.LockTarget), l.By, l.At.UTC().Format(time.RFC3339),
		l.Reason)
	return envelope.NewError(envelope.CodeLocked, message).WithFix(fmt.Sprintf("wait until an operator has cleared the "+
		"lock with `toolbus unlock %s --reason TEXT`, then call again with the same key", l.Flag()))
}

func is(t envelope.LockTarget) string {
	if t.All {
		return "all calls are"
	}
	return t.String() + " is"
}
