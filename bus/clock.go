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

// Clock tells bus time: the server's clock, as far as it can be known here. Clocks of machines
// differ and are set, so deadlines are compared in bus time only. Its methods are safe for concurrent use.
type Clock struct {
	local  func() time.Time
	last   atomic.Pointer[Reading]
	server func(context.Context) (time.Time, error)
}

// Reading is what the local clock and the bus clock said at the same moment.
type Reading struct{ Local, Bus time.Time }

// At returns the bus time of a local one. That the wall clock was set meanwhile does not count.
func (r Reading) At(local time.Time) time.Time { return r.Bus.Add(local.Sub(r.Local)) }

// Stepped returns how far the wall clock was set since, or the machine slept.
func (r Reading) Stepped(local time.Time) time.Duration {
	return local.Round(0).Sub(r.Local.Round(0)) - local.Sub(r.Local)
}

// NewClock measures the bus clock against local, which is time.Now unless a test skews it.
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

// NewClockOf is [NewClock] for processes that ask the server in another way: what server returns is the time of the
// server between its call and its return.
func NewClockOf(ctx context.Context, server func(context.Context) (time.Time, error),
	local func() time.Time) (*Clock, error) {
	if local == nil {
		local = time.Now
	}
	c := &Clock{local: local, server: server}
	return c, c.Measure(ctx)
}

// Server asks the server for its time.
func (c *Clock) Server(ctx context.Context) (time.Time, error) { return c.server(ctx) }

// Now returns bus time.
func (c *Clock) Now() time.Time { return c.last.Load().At(c.local()) }

// measurements is how often one Measure asks; the quickest answer says most.
const measurements = 5

// Measure asks the server for its time and keeps what the quickest answer says. The error is within
// half of that answer's round trip.
func (c *Clock) Measure(ctx context.Context) error {
	best := time.Duration(1<<63 - 1)
	var r Reading
	for range measurements {
		sent := c.local()
		says, err := c.server(ctx)
		if err != nil {
			return fmt.Errorf("bus clock: %w", err)
		}
		trip := c.local().Sub(sent)
		if trip < best {
			best, r = trip, Reading{sent.Add(trip / 2), says}
		}
	}
	c.last.Store(&r)
	return nil
}

// How often Run looks at the local clock, and how far that may be off before it measures at once.
const (
	lookAtClock = time.Second
	maxStep     = 100 * time.Millisecond
)

// Run measures again every interval, and soon after the local clock was set or the machine slept, until
// ctx ends; while nothing can be measured, what was measured before stays.
func (c *Clock) Run(ctx context.Context, interval time.Duration) {
	for timer.Sleep(ctx, min(interval, lookAtClock)) {
		if c.due(interval) {
			once, cancel := context.WithTimeout(ctx, interval)
			_ = c.Measure(once) // it is tried again soon; what is known stays good for a while
			cancel()
		}
	}
}

func (c *Clock) due(interval time.Duration) bool {
	now, last := c.local(), c.last.Load()
	return now.Sub(last.Local) >= interval || last.Stepped(now).Abs() > maxStep
}
