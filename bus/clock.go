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
	last   atomic.Pointer[Reading]
	server func(context.Context) (time.Time, error)
}

// Reading is a pair of local time and bus time, read at the same moment.
type Reading struct{ Local, Bus time.Time }

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
	c := &Clock{local: local, server: server}
	return c, c.Measure(ctx)
}

// Server asks the server for its time once. The clock does not use the answer.
func (c *Clock) Server(ctx context.Context) (time.Time, error) { return c.server(ctx) }

// Now returns the current bus time according to the last measurement. It sends nothing.
func (c *Clock) Now() time.Time { return c.last.Load().At(c.local()) }

// measurements is the number of requests of one Measure. The answer with the shortest round trip is the most accurate.
const measurements = 5

// Measure asks the server for its time five times and keeps the answer with the shortest round trip. Bus time is then
// accurate to half of that round trip. If a request fails, Measure returns its error and keeps the last measurement.
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

// Run reads the local clock every lookAtClock, and measures at once if the clock has stepped by more than maxStep.
const (
	lookAtClock = time.Second
	maxStep     = 100 * time.Millisecond
)

// Run measures every interval until ctx ends. It also measures within 1 s after the local clock was set or the machine
// slept. While the server does not answer, the last measurement stays in use.
func (c *Clock) Run(ctx context.Context, interval time.Duration) {
	for timer.Sleep(ctx, min(interval, lookAtClock)) {
		if c.due(interval) {
			once, cancel := context.WithTimeout(ctx, interval)
			_ = c.Measure(once) // the next round tries again; until then the last measurement is good enough
			cancel()
		}
	}
}

func (c *Clock) due(interval time.Duration) bool {
	now, last := c.local(), c.last.Load()
	return now.Sub(last.Local) >= interval || last.Stepped(now).Abs() > maxStep
}
