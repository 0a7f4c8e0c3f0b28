package timer

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how something is tried again until it is done. Pauses, and the time that one try has, double from try to
// try up to their bounds; without a bound they stay as they are. It is for one operation, and not for concurrent use.
type Backoff struct {
	// between two tries; where they grow half of each is random, so that not all come at once
	Pause, MaxPause time.Duration
	Try, MaxTry     time.Duration // that one try may take; 0 is as long as the context
	tries           int
}

// Until calls op until it is done, whatever its error says, or ctx has ended before the next try. It returns the
// error of the last try.
func (r Backoff) Until(ctx context.Context, op func(context.Context) (done bool, err error)) error {
	for {
		var done bool
		err := r.Once(ctx, func(ctx context.Context) (err error) {
			done, err = op(ctx)
			return err
		})
		if done || !Sleep(ctx, r.Next()) {
			return err
		}
	}
}

// Once runs one try in the time that it may take.
func (r *Backoff) Once(ctx context.Context, op func(context.Context) error) error {
	if r.Try <= 0 {
		return op(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, grown(r.Try, r.MaxTry, r.tries))
	defer cancel()
	return op(ctx)
}

// Next returns how long to wait before the next try.
func (r *Backoff) Next() time.Duration {
	d := grown(r.Pause, r.MaxPause, r.tries)
	r.tries++
	if r.MaxPause > r.Pause {
		return d/2 + rand.N(d/2)
	}
	return d
}

// grown doubles d so many times, but not beyond most.
func grown(d, most time.Duration, times int) time.Duration {
	for range times {
		if d >= most {
			break
		}
		d = min(2*d, most)
	}
	return d
}
