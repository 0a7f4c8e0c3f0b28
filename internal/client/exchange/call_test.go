package exchange

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A request to the bus ends at once when the caller cancels the call. Otherwise it has the grace of the call, with and
// without a deadline of the caller's context.
func TestGraced(t *testing.T) {
	const within = time.Second
	for name, c := range map[string]struct {
		deadline, cancel, want time.Duration // 0 is never
	}{
		"cancelled":                {0, within / 2, within / 2},
		"cancelled, with deadline": {within, within / 2, within / 2},
		"at the deadline":          {within, 0, within + workerGrace},
		"without a deadline":       {0, 0, within + workerGrace},
		"cancelled too late":       {within, within + 1, within + workerGrace},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.deadline > 0 {
				ctx, cancel = context.WithDeadline(ctx, began.Add(c.deadline))
				defer cancel()
			}
			if c.cancel > 0 {
				time.AfterFunc(c.cancel, cancel)
			}
			e := &Call{ctx: ctx}
			e.Deadline = began.Add(within)
			own, free := e.Graced()
			defer free()
			<-own.Done()
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: it ended after %s", name, took)
			}
			if cancelled := errors.Is(e.Cancelled(), context.Canceled); cancelled != (c.want < within) {
				t.Errorf("%s: %v", name, e.Cancelled())
			}
		})
	}
}
