package streaming

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// maxTry is the longest time of one try.
const maxTry = 8 * time.Second

// rhythm returns the pauses between tries, and the times of a try, which begin short: repeating a try that timed out is
// safe, and costs only bandwidth.
func rhythm() timer.Backoff {
	return timer.Backoff{
		Pause: 2 * time.Millisecond, MaxPause: 500 * time.Millisecond, Try: time.Second, MaxTry: maxTry,
	}
}

// untilDone repeats op until it succeeds, returns errRefused or [ErrMissing], or ctx ends.
func untilDone(ctx context.Context, op func(context.Context) error) error {
	done := false
	err := rhythm().Until(ctx, func(ctx context.Context) (bool, error) {
		err := op(ctx)
		done = err == nil || errors.Is(err, errRefused) || errors.Is(err, ErrMissing)
		return done, err
	})
	if !done {
		return fmt.Errorf("streaming: %w; the last try said: %w", context.Cause(ctx), err)
	}
	return err
}
