package streaming

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// maxTry bounds one try.
const maxTry = 8 * time.Second

// rhythm bounds the waits between tries, and one try. A try that ran out of time is repeated
// harmlessly, so being too impatient costs only bandwidth.
func rhythm() timer.Backoff {
	return timer.Backoff{
		Pause: 2 * time.Millisecond, MaxPause: 500 * time.Millisecond, Try: time.Second, MaxTry: maxTry,
	}
}

// untilDone repeats op until it succeeds, has a definite answer, or ctx ends.
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
