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

// Deliveries returns up to which position the work of pools was delivered to executors. Its methods are safe for
// concurrent use.
type Deliveries struct {
	js jetstream.JetStream

	mu    sync.Mutex
	known map[deliveredQueue]*position
}

// deliveredQueue is a queue of a pool in one partition, see [subjects.Queue].
type deliveredQueue struct {
	part       subjects.Partition
	pool, name string
}

// position is the result of the last read for a queue.
type position struct {
	mu  sync.Mutex // held during a read, so that concurrent callers share it
	seq uint64
	err error
	at  time.Time
}

// NewDeliveries returns a Deliveries that has read nothing yet.
func NewDeliveries(js jetstream.JetStream) *Deliveries {
	return &Deliveries{js: js, known: map[deliveredQueue]*position{}}
}

// freshPosition is how long a position, or the error of a read, is reused: many calls of a queue may time out at the
// same time.
const freshPosition = 20 * time.Millisecond

// Delivered reports whether the work at a position, in a queue of a pool, was delivered to an executor.
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
