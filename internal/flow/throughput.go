package flow

import "time"

// The smallest and the largest result of [Throughput.Wait].
const (
	MinWait = 100 * time.Millisecond
	MaxWait = 30 * time.Second
)

// Throughput estimates how fast items end. The zero value is ready to use. It is not safe for concurrent use.
type Throughput struct {
	last time.Time     // when the last item ended, or when one was added to none
	gap  time.Duration // smoothed time from one end to the next
}

// Start records that an item was added when no other was open.
func (p *Throughput) Start(now time.Time) { p.last = now }

// smooth is the weight of the exponential moving average: about the number of averaged gaps.
const smooth = 8

// Ended records that an item has ended.
func (p *Throughput) Ended(now time.Time) {
	gap := now.Sub(p.last)
	if p.gap == 0 {
		p.gap = gap
	}
	p.gap += (gap - p.gap) / smooth
	p.last = now
}

// Wait returns an estimate of how long n more items take to end.
func (p *Throughput) Wait(n int64, now time.Time) time.Duration {
	wait := max(time.Duration(n)*min(p.gap, MaxWait), now.Sub(p.last)) // if no item ends, the time since the last end
	return min(max(wait, MinWait), MaxWait)
}
