package timer

import (
	"context"
	"time"
)

// Notify sends on c without blocking. c must have a buffer of one element, so that a receiver that comes later is woken
// too.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sleep waits for d, or not at all if d is not positive. It returns false if ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Repeat calls do at once, after each pause that do returns, and when woken, until ctx ends.
func Repeat(ctx context.Context, wake <-chan struct{}, do func() (pause time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(do())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		}
	}
}
