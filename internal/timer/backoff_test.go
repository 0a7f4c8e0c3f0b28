package timer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// The pauses between tries and their timeouts are those of the Backoff.
func TestRetryUntil(t *testing.T) {
	for name, c := range map[string]struct {
		rhythm      timer.Backoff
		least, most time.Duration // time that four tries take
	}{
		"even":    {timer.Backoff{Pause: time.Second}, 3 * time.Second, 3 * time.Second},
		"growing": {timer.Backoff{Pause: time.Second, MaxPause: 3 * time.Second}, 3 * time.Second, 6 * time.Second},
		"mute":    {timer.Backoff{Try: time.Second, MaxTry: 3 * time.Second}, 9 * time.Second, 9 * time.Second},
		"none":    {timer.Backoff{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, n := time.Now(), 0
				err := c.rhythm.Until(t.Context(), func(ctx context.Context) (bool, error) {
					if n++; c.rhythm.Try > 0 {
						<-ctx.Done()
					}
					return n == 4, nil
				})
				if took := time.Since(began); err != nil || n != 4 || took < c.least || took > c.most {
					t.Errorf("%d tries in %s, %v", n, took, err)
				}
			})
		})
	}
}

// Until returns the last error when ctx has ended, and when op reports done.
func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		notYet, never, n := errors.New("not yet"), errors.New("never"), 0
		err := timer.Backoff{Pause: time.Second}.Until(ctx, func(context.Context) (bool, error) { n++; return false, notYet })
		if !errors.Is(err, notYet) || n < 10 || n > 11 {
			t.Errorf("%d tries, %v", n, err)
		}
		err = timer.Backoff{}.Until(t.Context(), func(context.Context) (bool, error) { return true, never })
		if !errors.Is(err, never) {
			t.Error(err)
		}
	})
}
