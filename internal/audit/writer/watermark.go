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

// Watermark knows up to where the record holds each partition of the call log: it follows the segments of their
// projectors. It does nothing before somebody waits. Its methods are safe for concurrent use; Run may be called once.
type Watermark struct {
	js      jetstream.JetStream
	chains  []string // filters of the segments, by partition
	log     *slog.Logger
	notices format.Notices
	wanted  chan struct{} // somebody waits, for the first time
	once    sync.Once

	mu         sync.Mutex
	parts      []audit.Position // up to where each partition is on record
	moved      chan struct{}    // closed when one of them has changed
	waiting    int
	came       bool  // something has come since it was asked last
	unreadable error // a newer build goes on with the record
}

// NewWatermark returns the coverage of so many partitions. Run has to be called for anybody to be woken.
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

// Wait returns when the record is known to hold the event that was stored at a position at that time. An error
// is the cause of the end of ctx, or that a newer build goes on with the record (a [format.Error]).
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

// has reports whether an event is on record, and otherwise what is closed when there is more. The time counts, too: a
// log that has lost its end uses positions again, and what is younger than all that is on record is not.
func (c *Watermark) has(p call.Position, at time.Time) (covered bool, moved <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreadable != nil {
		return false, nil, c.unreadable
	}
	upTo := c.parts[p.Partition]
	return p.Seq <= upTo.Seq && !at.After(upTo.Time), c.moved, nil
}

// Run follows the record from the first wait on, until ctx ends. A server that came back may have lost the end of
// the record, so that nothing that was known of it counts any more then.
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

// forget drops what is known.
func (c *Watermark) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.parts)
	c.unreadable = nil
}

// follow reads the record from where it ends now, until it has to be done anew.
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

// look reads the last segment of every chain, and reports whether it says more than was known.
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

// watch returns when the record has to be followed anew: the server was away, or there is more than was brought.
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
				more, _ := c.look(soon, stream) // next time otherwise
				cancel()
				if more {
					return
				}
			}
		}
	}
}

// quiet reports whether somebody waits and nothing has come since it was asked before.
func (c *Watermark) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	came := c.came
	c.came = false
	return c.waiting > 0 && !came
}

// take notes what a message of the record says of how far that has come, and reports whether it is more than was known.
// Only the last segment of a flush says it: those before do not hold all that is named by their range.
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
