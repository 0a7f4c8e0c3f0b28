// Package lock has the safety locks as a process knows them. A [Board] holds the locks, and the time at which they were
// certainly complete. When that is too long ago, nothing may be admitted or started: a lock may have been set since.
// Package lockstore stores locks.
package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// ErrStale means that this process does not know which locks are in force.
var ErrStale = errors.New("the safety locks in force are not known here at present")

// Board holds the safety locks that a process knows. Make one with [NewBoard]. A nil Board has no locks, and is never
// stale. It is safe for concurrent use.
type Board struct {
	locks timer.Lease[[]envelope.Lock]
}

// NewBoard returns a Board that is stale until the first [Board.Learn].
func NewBoard() *Board { return &Board{} }

// Learn states that these were all locks in force at the given time, by the clock of this process. It ignores what is
// older than the board. The caller must not change locks afterwards.
func (b *Board) Learn(locks []envelope.Lock, at time.Time) { b.locks.Learn(locks, at) }

// Known returns the locks, and for how long they have been known to be complete. The error is [ErrStale].
func (b *Board) Known() (locks []envelope.Lock, age time.Duration, err error) {
	if b == nil {
		return nil, 0, nil
	}
	locks, age, ok := b.locks.Known()
	if !ok {
		return nil, age, ErrStale
	}
	return locks, age, nil
}

// Find returns the lock that covers calls of a tool in a lane, or nil. If the board is stale, it waits up to 300 ms for
// newer knowledge. The error is [ErrStale], or that of ctx.
func (b *Board) Find(ctx context.Context, tool, lane string) (*envelope.Lock, error) {
	if b == nil {
		return nil, nil
	}
	locks, ok, err := b.locks.Wait(ctx)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrStale
	}
	for i := range locks {
		if locks[i].Covers(tool, lane) {
			return &locks[i], nil
		}
	}
	return nil, nil
}

// Refusal returns the error of a call that a lock stops. It says who set the lock, when and why, and how it is cleared.
func Refusal(l *envelope.Lock) *envelope.Error {
	message := fmt.Sprintf("%s locked by %s since %s: %s", subject(l.LockTarget), l.By, l.At.UTC().Format(time.RFC3339),
		l.Reason)
	return envelope.NewError(envelope.CodeLocked, message).WithFix(fmt.Sprintf("wait until an operator has cleared the "+
		"lock with `toolbus unlock %s --reason TEXT`, then call again with the same key", l.Flag()))
}

// subject returns the beginning of a sentence about a target.
func subject(t envelope.LockTarget) string {
	if t.All {
		return "all calls are"
	}
	return t.String() + " is"
}
