package writer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Watermark tracks up to which position each partition of the call log is recorded, by following the segments of the
// projectors. It reads nothing before the first Wait. Its methods are safe for concurrent use. Run may be called once.
type Watermark struct {
	js      jetstream.JetStream
	chains  []string // subject filters of the segments, by partition
	log     *slog.Logger
	notices format.Notices
	wanted  chan struct{} // closed by the first Wait
	once    sync.Once

	mu         sync.Mutex
	parts      []audit.Position // recorded position of each partition
	moved      chan struct{}    // closed when parts or unreadable changes
	waiting    int
	came       bool  // a segment has come since the last call of quiet
	unreadable error // error if a newer build has continued the record
}

// NewWatermark returns a Watermark for a call log with partitions partitions. Wait returns only while Run runs.
func NewWatermark(js jetstream.JetStream, partitions int, log *slog.Logger) *Watermark {
	var chains []string
	for p := range subjects.Partition(partitions) {
		chains = append(chains, p.AuditLog())
	}
	return &Watermark{
		js: js, chains: chains, log: log, wanted: make(chan struct{}),
		parts: make([]audit.Position, partitions), moved: make(chan struct{}),
	}
}

// Wait waits until the audit record holds the event that was stored at position p at time at. It returns the cause of
// the end of ctx, or a [format.Error] if a newer build has continued the record.
func (c *Watermark) Wait(ctx context.Context, p call.Position, at time.Time) error {
	c.once.Do(func() { close(c.wanted) })
	c.wait(1)
	defer c.wait(-1)
	for {
		covered, moved, err := c.has(p, at)
		if covered || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *Watermark) wait(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += more
}

// has reports whether an event is recorded. If not, moved is closed at the next change. The time counts too: a log that
// lost its end uses sequences again, and an event that is younger than all recorded ones is not recorded.
func (c *Watermark) has(p call.Position, at time.Time) (covered bool, moved <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreadable != nil {
		return false, nil, c.unreadable
	}
	upTo := c.parts[p.Partition]
	return p.Seq <= upTo.Seq && !at.After(upTo.Time), c.moved, nil
}

// Run follows the record from the first Wait on, until ctx ends. After a reconnect it starts again without positions,
// because the server may have lost the end of the record.
func (c *Watermark) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.wanted:
	}
	status := c.js.Conn().StatusChanged(nats.CONNECTED)
	defer c.js.Conn().RemoveStatusListener(status)
	for ctx.Err() == nil {
		c.forget()
		err := c.follow(ctx, status)
		if ctx.Err() == nil && err != nil {
			c.log.Warn("the record is not followed: strict calls wait", "err", err)
			timer.Sleep(ctx, waitAsStandby/10)
		}
	}
}

// forget discards all positions.
func (c *Watermark) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.parts)
	c.unreadable = nil
}

// follow reads the last segment of each chain and then new ones, until watch or an error ends it.
func (c *Watermark) follow(ctx context.Context, status <-chan nats.Status) error {
	ctx, anew := context.WithCancel(ctx)
	defer anew()
	soon, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := c.js.Stream(soon, subjects.AuditStream)
	if err != nil {
		return err
	}
	from := bus.StartAfter(stream.CachedInfo().State.LastSeq)
	from.FilterSubjects = c.chains
	if _, err := c.look(soon, stream); err != nil {
		return err
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer anew()
	watching.Go(func() { defer anew(); c.watch(ctx, stream, status) })
	for msg, err := range bus.Messages(ctx, c.js, subjects.AuditStream, from, 0) {
		if err != nil {
			return err
		}
		c.take(msg.Data())
	}
	return nil
}

// look reads the last segment of every chain, and reports whether a position changed.
func (c *Watermark) look(ctx context.Context, stream jetstream.Stream) (more bool, err error) {
	for _, chain := range c.chains {
		msg, err := stream.GetLastMsgForSubject(ctx, chain)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, nats.ErrBadHeaderMsg):
		case err != nil:
			return more, err
		default:
			more = c.take(msg.Data) || more
		}
	}
	return more, nil
}

// watch returns after a reconnect, or if a chain has a segment that the consumer did not deliver.
func (c *Watermark) watch(ctx context.Context, stream jetstream.Stream, status <-chan nats.Status) {
	tick := time.NewTicker(waitAsStandby)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-status:
			return
		case <-tick.C:
			if c.quiet() {
				soon, cancel := context.WithTimeout(ctx, askTime)
				more, _ := c.look(soon, stream) // after an error the next tick tries again
				cancel()
				if more {
					return
				}
			}
		}
	}
}

// quiet reports whether a caller waits and no segment has come since the last call.
func (c *Watermark) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	came := c.came
	c.came = false
	return c.waiting > 0 && !came
}

// take processes a message of the record, and reports whether a position changed. Only the last segment of a flush
// counts: the segments before it do not hold all events of their range.
func (c *Watermark) take(data []byte) (more bool) {
	s, ok, err := audit.Open(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.came = true
	switch {
	case format.Newer(err):
		c.notices.Log(c.log, "strict calls are left to executors of a newer build", err)
		c.unreadable = err
	case !ok || s.Source != audit.SourceLog || s.K != s.N || int(s.Part) >= len(c.parts) || c.parts[s.Part] == s.Through:
		return false
	default:
		c.parts[s.Part], c.unreadable = s.Through, nil
	}
	close(c.moved)
	c.moved = make(chan struct{})
	return true
}
