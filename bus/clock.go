package bus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Clock tells bus time: the server's clock, as far as it can be known here. Clocks of machines
// differ, so deadlines are compared in bus time only. Its methods are safe for concurrent use.
type Clock struct {
	local  func() time.Time
	offset atomic.Int64 // bus time minus local time, nanoseconds
	stream jetstream.Stream
}

// NewClock measures the bus clock against local, which is time.Now unless a test skews it.
func NewClock(ctx context.Context, js jetstream.JetStream, local func() time.Time) (*Clock, error) {
	if local == nil {
		local = time.Now
	}
	stream, err := js.Stream(ctx, subjects.CallsStream)
	if err != nil {
		return nil, fmt.Errorf("bus clock: %w", err)
	}
	c := &Clock{local: local, stream: stream}
	return c, c.Measure(ctx)
}

// Now returns bus time.
func (c *Clock) Now() time.Time { return c.local().Add(time.Duration(c.offset.Load())) }

// Offset returns how far bus time is ahead of the local clock.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// measurements is how often one Measure asks; the quickest answer says most.
const measurements = 5

// Measure asks the server for its time and keeps the offset of the quickest answer. The error
// is within half of that answer's round trip.
func (c *Clock) Measure(ctx context.Context) error {
	best := time.Duration(1<<63 - 1)
	var offset time.Duration
	for range measurements {
		sent := c.local()
		info, err := c.stream.Info(ctx)
		if err != nil {
			return fmt.Errorf("bus clock: %w", err)
		}
		trip := c.local().Sub(sent)
		if trip < best {
			best, offset = trip, info.TimeStamp.Sub(sent.Add(trip/2))
		}
	}
	c.offset.Store(int64(offset))
	return nil
}

// Run measures again every interval until ctx ends; what cannot be measured keeps the old offset.
func (c *Clock) Run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			once, cancel := context.WithTimeout(ctx, interval)
			_ = c.Measure(once) // the next tick tries again; the old offset stays good for a while
			cancel()
		}
	}
}
