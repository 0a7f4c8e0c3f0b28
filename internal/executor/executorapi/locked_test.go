package executorapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
)

// becomes waits until a board says what is wanted of a tool.
func (f *fixture) becomes(b *lock.Board, locked bool, want error) {
	f.T.Helper()
	for began := time.Now(); ; {
		l, err := b.Find(f.T.Context(), "echo", "")
		if errors.Is(err, want) && (l != nil) == locked {
			return
		}
		if time.Since(began) > 10*time.Second {
			f.T.Fatalf("%+v, %v: want locked %t, %v", l, err, locked, want)
		}
	}
}

// An executor knows the locks that its dispatcher knows, and no longer than that.
func TestLocksOfADispatcher(t *testing.T) {
	f := setup(t)
	f.locks = lock.NewBoard()
	stop := f.serve("d")
	c, board := f.client("default"), lock.NewBoard()
	c.WaitFor(100 * time.Millisecond)
	bustest.Run(t, func(ctx context.Context) { c.KeepLocks(ctx, board) })
	f.becomes(board, false, lock.ErrStale) // as its dispatcher
	all := []envelope.Lock{{LockTarget: envelope.LockTarget{All: true}}}
	f.locks.Learn(all, time.Now().Add(-700*time.Millisecond))
	for {
		if _, age, err := board.Known(); err == nil {
			if age < 700*time.Millisecond {
				t.Errorf("known for %s, and its dispatcher for 700 ms", age)
			}
			break
		}
		if _, _, err := f.locks.Known(); err != nil { // the machine was too slow: once more
			f.locks.Learn(all, time.Now().Add(-700*time.Millisecond))
		}
	}
	f.locks.Learn(all, time.Now())
	f.becomes(board, true, nil)
	f.becomes(board, false, lock.ErrStale) // its dispatcher is suspended, or does not reach the bucket
	f.locks.Learn(nil, time.Now())
	f.becomes(board, false, nil)
	stop()
	f.locks.Learn(nil, time.Now().Add(time.Minute)) // a dispatcher that does not answer helps nobody
	f.becomes(board, false, lock.ErrStale)
}
