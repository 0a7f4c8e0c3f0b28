package bus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Clock estimates bus time, which is the time of the NATS server's clock. The clocks of machines differ, and operators
// set them, so deadlines are compared in bus time only. Make a Clock with [NewClock] or [NewClockOf]. Its methods are
// safe for concurrent use.
type Clock struct {
	local  func() time.Time
	last   atomic.Pointer[measurement]
	server func(context.Context) (time.Time, error)
	moved  chan struct{} // signals that the last measurement is wrong
}

// Reading is a pair of local time and bus time, read at the same moment. Bus is right to within Error.
type Reading struct {
	Local, Bus time.Time
	Error      time.Duration
}

// measurement is the newest Reading of a clock, with the time by which the clock of the server was set since the first.
type measurement struct {
	Reading
	set time.Duration
}

// At returns the bus time at the given local time. If both times have a monotonic reading, setting the wall clock in
// between does not change the result.
func (r Reading) At(local time.Time) time.Time { return r.Bus.Add(local.Sub(r.Local)) }

// Stepped returns by how much the wall clock has moved more than the monotonic clock between r.Local and local: because
// it was set, or because the machine slept.
func (r Reading) Stepped(local time.Time) time.Duration {
	return local.Round(0).Sub(r.Local.Round(0)) - local.Sub(r.Local)
}

// NewClock returns a clock that it has measured against local. A nil local is time.Now; tests pass a skewed clock. The
// error is not nil if the server did not report its time, or has no stream of Toolbus yet.
func NewClock(ctx context.Context, js jetstream.JetStream, local func() time.Time) (*Clock, error) {
	stream, err := js.Stream(ctx, subjects.Partition(0).Stream())
	if err != nil {
		return nil, fmt.Errorf("bus clock: %w", MissingStreamError(err))
	}
	return NewClockOf(ctx, func(ctx context.Context) (time.Time, error) {
		info, err := stream.Info(ctx)
		if err != nil {
			return time.Time{}, err
		}
		return info.TimeStamp, nil
	}, local)
}

// NewClockOf is [NewClock] with another way to ask for the time. The function server returns a time that the server's
// clock showed between the call of the function and its return.
func NewClockOf(ctx context.Context, server func(context.Context) (time.Time, error),
	local func() time.Time) (*Clock, error) {
	if local == nil {
		local = time.Now
	}
	c := &Clock{local: local, server: server, moved: make(chan struct{}, 1)}
	return c, c.Measure(ctx)
}

// Server asks the server for its time once. The clock does not use the answer.
func (c *Clock) Server(ctx context.Context) (time.Time, error) { return c.server(ctx) }

// Now returns the current bus time according to the last measurement. It sends nothing.
func (c *Clock) Now() time.Time { return c.last.Load().At(c.local()) }

// Times returns bus time, and steady time, which is bus time without the steps that the clock has noticed: the
// difference of two steady times is the time that has passed. If the local machine slept, that counts as a step.
func (c *Clock) Times() (now, steady time.Time) {
	last := c.last.Load()
	now = last.At(c.local())
	return now, now.Add(-last.set)
}

// measurements is the number of requests of one Measure. The answer with the shortest round trip is the most accurate.
const measurements = 5

// Measure asks the server for its time five times and keeps the answer with the shortest round trip. Bus time is then
// accurate to half of that round trip. If an answer contradicts the last measurement, because a clock was set, the
// clock uses it at once. If a request fails, Measure returns its error.
func (c *Clock) Measure(ctx context.Context) error {
	var best *measurement
	for range measurements {
		r, err := c.ask(ctx)
		if err != nil {
			return err
		}
		m := &measurement{Reading: r}
		last := c.last.Load()
		if last != nil {
			m.set = last.set
		}
		switch {
		case last == nil:
			c.last.Store(m)
		case last.contradicts(r):
			m.set += r.Bus.Sub(last.At(r.Local))
			c.last.Store(m)
		case best != nil && r.Error >= best.Error:
			continue
		}
		best = m
	}
	c.last.Store(best)
	return nil
}

// ask asks the server for its time once.
func (c *Clock) ask(ctx context.Context) (Reading, error) {
	sent := c.local()
	says, err := c.server(ctx)
	if err != nil {
		return Reading{}, fmt.Errorf("bus clock: %w", err)
	}
	return readingOf(says, sent, c.local()), nil
}

// readingOf returns the reading of a bus time that another clock showed between two local times.
func readingOf(bus, sent, received time.Time) Reading {
	half := received.Sub(sent) / 2
	return Reading{sent.Add(half), bus, half}
}

// maxStep is how far two readings may be apart beyond their errors.
const maxStep = 100 * time.Millisecond

// contradicts reports whether one of two readings is wrong by now, because a clock was set or the machine slept.
func (r Reading) contradicts(other Reading) bool {
	return r.At(other.Local).Sub(other.Bus).Abs() > maxStep+r.Error+other.Error
}

// Hear compares the clock with a bus time that somebody else told between two local times. If the clock is wrong, Run
// measures at once.
func (c *Clock) Hear(bus, sent, received time.Time) {
	if c.last.Load().contradicts(readingOf(bus, sent, received)) {
		timer.Notify(c.moved)
	}
}

// measureTime is the longest time of one Measure of Run.
const measureTime = 3 * time.Second

// Run measures every interval, and when [Clock.Hear] has found the clock wrong, until ctx ends. While the server does
// not answer, the last measurement stays in use.
func (c *Clock) Run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.moved:
		}
		once, cancel := context.WithTimeout(ctx, measureTime)
		_ = c.Measure(once) // the next round tries again; until then the last measurement is good enough
		cancel()
	}
}

// lookAtServer is the time between two looks at the clock of the server, and the longest wait for one.
const lookAtServer = time.Second / 2

// Watch compares the clock with that of the server every half second until ctx ends, so that Run learns within a second
// that one of them was set. It is for a few processes: each look is a request to the server.
func (c *Clock) Watch(ctx context.Context) {
	for timer.Sleep(ctx, lookAtServer) {
		once, cancel := context.WithTimeout(ctx, lookAtServer)
		if r, err := c.ask(once); err == nil && c.last.Load().contradicts(r) {
			timer.Notify(c.moved)
		}
		cancel()
	}
}
