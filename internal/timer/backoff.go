package timer

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff repeats an operation until it is done. The pause and the time of one try double after each try, up to
// MaxPause and MaxTry. If a maximum is not larger than the start value, the value stays constant. A Backoff is for one
// operation and not safe for concurrent use.
type Backoff struct {
	// pause between two tries; if MaxPause is larger, half of each pause is random, so that many processes do not retry at
	// the same time
	Pause, MaxPause time.Duration
	Try, MaxTry     time.Duration // timeout of one try; 0 is no timeout
	tries           int
}

// Until calls op until it reports done, whatever its error is, or until ctx has ended before the next try. It returns
// the error of the last try.
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

// Once calls op once with the timeout of the current try.
func (r *Backoff) Once(ctx context.Context, op func(context.Context) error) error {
	if r.Try <= 0 {
		return op(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, grown(r.Try, r.MaxTry, r.tries))
	defer cancel()
	return op(ctx)
}

// Next returns the pause before the next try.
func (r *Backoff) Next() time.Duration {
	d := grown(r.Pause, r.MaxPause, r.tries)
	r.tries++
	if r.MaxPause > r.Pause {
		return d/2 + rand.N(d/2)
	}
	return d
}

// grown doubles d times times, but not beyond most.
func grown(d, most time.Duration, times int) time.Duration {
	for range times {
		if d >= most {
			break
		}
		d = min(2*d, most)
	}
	return d
}
