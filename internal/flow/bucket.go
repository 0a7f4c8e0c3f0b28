package flow

import "time"

// Bucket is a rate limiter: it permits up to Burst events at once, and Rate events per second in the long run. It is
// not safe for concurrent use.
type Bucket struct {
	Rate, Burst float64

	level float64
	at    time.Time
}

// Take reports whether one more event is permitted, and counts it if so.
func (b *Bucket) Take(now time.Time) bool {
	b.leak(now)
	if b.level+1 > b.Burst {
		return false
	}
	b.level++
	return true
}

// Idle reports whether the bucket is in the state of a new one, so that it can be removed.
func (b *Bucket) Idle(now time.Time) bool {
	b.leak(now)
	return b.level == 0
}

func (b *Bucket) leak(now time.Time) {
	if past := now.Sub(b.at); past > 0 {
		b.level, b.at = max(0, b.level-b.Rate*past.Seconds()), now
	}
}
