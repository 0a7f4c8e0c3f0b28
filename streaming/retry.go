package streaming

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The bounds of the waits between tries, and of one try. A try that ran out of time is repeated
// harmlessly, so being too impatient costs only bandwidth.
const (
	minWait, maxWait = 2 * time.Millisecond, 500 * time.Millisecond
	minTry, maxTry   = time.Second, 8 * time.Second
)

// backoff spaces out the tries of one operation. The zero value is ready.
type backoff struct{ tries int }

// next returns how long to wait before the next try, half of it random so that a thousand
// writers do not return to a restarted server at once.
func (b *backoff) next() time.Duration {
	d := maxWait
	if b.tries < 8 {
		d = min(d, minWait<<b.tries)
	}
	b.tries++
	return d/2 + rand.N(d/2)
}

// wait sleeps until the next try is due or ctx ends.
func (b *backoff) wait(ctx context.Context) error {
	timer := time.NewTimer(b.next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// once runs one try, in bounded time; later ones get more.
func (b *backoff) once(ctx context.Context, op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, min(maxTry, minTry<<min(b.tries, 3)))
	defer cancel()
	return op(ctx)
}

// untilDone repeats op until it succeeds, has a definite answer, or ctx ends.
func untilDone(ctx context.Context, op func(context.Context) error) error {
	var tries backoff
	for {
		err := tries.once(ctx, op)
		if err == nil || errors.Is(err, errRefused) || errors.Is(err, ErrMissing) {
			return err
		}
		if waitErr := tries.wait(ctx); waitErr != nil {
			return fmt.Errorf("streaming: %w; the last try said: %w", waitErr, err)
		}
	}
}
