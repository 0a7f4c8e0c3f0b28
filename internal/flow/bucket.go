package flow

import "time"

// Bucket permits Burst events at once, and Rate a second in the long run. It is not safe for concurrent use.
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

// Idle reports whether the bucket is as a new one, so that it may be forgotten.
func (b *Bucket) Idle(now time.Time) bool {
	b.leak(now)
	return b.level == 0
}

func (b *Bucket) leak(now time.Time) {
	if past := now.Sub(b.at); past > 0 {
		b.level, b.at = max(0, b.level-b.Rate*past.Seconds()), now
	}
}
