package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Deliveries knows how far executors have been handed the work of their pools. Its methods are safe for concurrent use.
type Deliveries struct {
	js jetstream.JetStream

	mu    sync.Mutex
	known map[deliveredQueue]*position
}

// deliveredQueue is one of a pool in one partition, see [subjects.Queue].
type deliveredQueue struct {
	part       subjects.Partition
	pool, name string
}

// position is how far a queue was handed out when it was last looked at.
type position struct {
	mu  sync.Mutex // one look at a time, for all who want to know
	seq uint64
	err error
	at  time.Time
}

// NewDeliveries returns one that has not looked yet.
func NewDeliveries(js jetstream.JetStream) *Deliveries {
	return &Deliveries{js: js, known: map[deliveredQueue]*position{}}
}

// freshPosition is how long a position is used again, or that there was no answer: many calls of a queue may be timed
// out at once.
const freshPosition = 20 * time.Millisecond

// Delivered reports whether the work at a position, in a queue of a pool, was handed to executors.
func (d *Deliveries) Delivered(ctx context.Context, at call.Position, pool, name string) (bool, error) {
	q := deliveredQueue{at.Partition, pool, name}
	p := d.position(q)
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= freshPosition {
		p.seq, p.err = d.read(ctx, q)
		p.at = time.Now()
	}
	return at.Seq <= p.seq, p.err
}

func (d *Deliveries) read(ctx context.Context, q deliveredQueue) (uint64, error) {
	cons, err := d.js.Consumer(ctx, q.part.Stream(), subjects.Worker(q.pool, q.name))
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("work of pool %s: %w", q.pool, err)
	}
	return cons.CachedInfo().Delivered.Stream, nil
}

func (d *Deliveries) position(q deliveredQueue) *position {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.known[q]
	if p == nil {
		p = &position{}
		d.known[q] = p
	}
	return p
}
