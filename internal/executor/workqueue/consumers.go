package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Consumer is what is known of the consumer of one queue in one partition, at one look.
type Consumer struct {
	Stream    string    `json:"stream"`
	Name      string    `json:"name"`
	Created   time.Time `json:"created,omitzero"` // zero: there is none
	Delivered uint64    `json:"delivered,omitzero"`
}

// Consumers are those of a pool.
type Consumers interface {
	// Look says how they are at some time between its call and its return. One that is left out is not there.
	Look(ctx context.Context) ([]Consumer, error)
}

// KeptConsumers makes the consumers of a pool, and looks at them. Its methods are safe for concurrent use.
type KeptConsumers struct {
	js         jetstream.JetStream
	pool       string
	partitions int
	lease      time.Duration
	makes      bool
}

// Keep returns the keeper of the consumers of a pool, whose work is given to another executor when one was silent for
// a lease. One that only watches makes none.
func Keep(js jetstream.JetStream, pool string, partitions int, lease time.Duration) *KeptConsumers {
	return &KeptConsumers{js: js, pool: pool, partitions: partitions, lease: lease, makes: true}
}

// Watch returns a keeper that makes no consumers.
func Watch(js jetstream.JetStream, pool string, partitions int) *KeptConsumers {
	return &KeptConsumers{js: js, pool: pool, partitions: partitions}
}

// Ensure creates the consumers, or updates their lease.
func (k *KeptConsumers) Ensure(ctx context.Context) error {
	return k.each(func(p subjects.Partition, queue string) error {
		_, err := k.ensure(ctx, p, queue)
		return err
	})
}

// Look implements [Consumers]. One that somebody has deleted is made anew.
func (k *KeptConsumers) Look(ctx context.Context) (all []Consumer, err error) {
	err = k.each(func(p subjects.Partition, queue string) error {
		cons, err := k.js.Consumer(ctx, p.Stream(), subjects.Worker(k.pool, queue))
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			if !k.makes {
				return nil
			}
			cons, err = k.ensure(ctx, p, queue)
		}
		if err != nil {
			return fmt.Errorf("work of pool %s: %w", k.pool, err)
		}
		i := cons.CachedInfo()
		all = append(all, Consumer{i.Stream, i.Name, i.Created, i.Delivered.Consumer})
		return nil
	})
	return all, err
}

func (k *KeptConsumers) each(do func(p subjects.Partition, queue string) error) error {
	for p := range subjects.Partition(k.partitions) {
		for _, q := range queues {
			if err := do(p, q.token()); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensure creates one consumer, or updates its lease.
func (k *KeptConsumers) ensure(ctx context.Context, p subjects.Partition, queue string) (jetstream.Consumer, error) {
	cons, err := k.js.CreateOrUpdateConsumer(ctx, p.Stream(), jetstream.ConsumerConfig{
		Durable:       subjects.Worker(k.pool, queue),
		FilterSubject: p.WorkFilter(k.pool, queue),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       k.lease,
		MaxDeliver:    -1,      // hand-backs are free; claims are counted instead
		MaxAckPending: 100_000, // slots bound what is out, not the server
		MaxWaiting:    8192,
	})
	if err != nil {
		return nil, unmade(err, p.Stream(), subjects.Worker(k.pool, queue))
	}
	return cons, nil
}

// unmade says which consumer the server did not make. The server opens no consumer whose files are damaged, and cannot
// delete it either.
func unmade(err error, stream, consumer string) error {
	err = fmt.Errorf("consumer %s of stream %s: %w", consumer, stream, err)
	if !bus.HasErrorCode(err, bus.CodeConsumerCreate, bus.CodeConsumerStore) {
		return err
	}
	return fmt.Errorf("%w; if its files are damaged, remove the folder streams/%s/obs/%s of the account in the "+
		"store_dir of the server, and start the dispatcher again, which makes the consumer again: see "+
		"\"A damaged consumer\" in docs/operations.md", err, stream, consumer)
}
