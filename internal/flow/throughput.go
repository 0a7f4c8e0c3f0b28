package flow

import "time"

// The least and the most that is said of a wait.
const (
	MinWait = 100 * time.Millisecond
	MaxWait = 30 * time.Second
)

// Throughput is how fast what is there is worked off. The zero value knows nothing yet.
type Throughput struct {
	last time.Time     // something was worked off, or came where there was nothing
	gap  time.Duration // from one to the next, of late
}

// Start says that something came where there was nothing.
func (p *Throughput) Start(now time.Time) { p.last = now }

// smooth is of how many gaps the pace is the mean, about.
const smooth = 8

// Ended says that something was worked off.
func (p *Throughput) Ended(now time.Time) {
	gap := now.Sub(p.last)
	if p.gap == 0 {
		p.gap = gap
	}
	p.gap += (gap - p.gap) / smooth
	p.last = now
}

// Wait returns about how long n more take.
func (p *Throughput) Wait(n int64, now time.Time) time.Duration {
	wait := max(time.Duration(n)*min(p.gap, MaxWait), now.Sub(p.last)) // where nothing ends, it has already taken so long
	return min(max(wait, MinWait), MaxWait)
}
