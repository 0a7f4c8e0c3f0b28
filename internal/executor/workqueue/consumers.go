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
	js    jetstream.JetStream
	pool  string
	all   []consumerNames
	lease time.Duration
	makes bool
}

// consumerNames holds the names of the consumer of one queue of a pool in one partition, and its subjects.
type consumerNames struct {
	queue
	stream string
	name   string
	work   string // filter of what it hands out
	next   string // subject of pull requests
}

// consumersOf returns those of all queues and partitions.
func consumersOf(pool string, partitions int) (all []consumerNames) {
	for p := range subjects.Partition(partitions) {
		for _, q := range queues {
			token := q.token()
			all = append(all, consumerNames{
				q, p.Stream(), subjects.Worker(pool, token), p.WorkFilter(pool, token), p.NextWork(pool, token),
			})
		}
	}
	return all
}

// Keep returns the keeper of the consumers of a pool, whose work is given to another executor when one was silent for
// a lease. One that only watches makes none.
func Keep(js jetstream.JetStream, pool string, partitions int, lease time.Duration) *KeptConsumers {
	return &KeptConsumers{js: js, pool: pool, all: consumersOf(pool, partitions), lease: lease, makes: true}
}

// Watch returns a keeper that makes no consumers.
func Watch(js jetstream.JetStream, pool string, partitions int) *KeptConsumers {
	return &KeptConsumers{js: js, pool: pool, all: consumersOf(pool, partitions)}
}

// Ensure creates the consumers, or updates their lease.
func (k *KeptConsumers) Ensure(ctx context.Context) error {
	for _, c := range k.all {
		if _, err := k.ensure(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Look implements [Consumers]. One that somebody has deleted is made anew.
func (k *KeptConsumers) Look(ctx context.Context) (all []Consumer, err error) {
	for _, c := range k.all {
		cons, err := k.js.Consumer(ctx, c.stream, c.name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			if !k.makes {
				continue
			}
			cons, err = k.ensure(ctx, c)
		}
		if err != nil {
			return all, fmt.Errorf("work of pool %s: %w", k.pool, err)
		}
		i := cons.CachedInfo()
		all = append(all, Consumer{i.Stream, i.Name, i.Created, i.Delivered.Consumer})
	}
	return all, nil
}

// ensure creates one consumer, or updates its lease.
func (k *KeptConsumers) ensure(ctx context.Context, c consumerNames) (jetstream.Consumer, error) {
	cons, err := k.js.CreateOrUpdateConsumer(ctx, c.stream, jetstream.ConsumerConfig{
		Durable:       c.name,
		FilterSubject: c.work,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       k.lease,
		MaxDeliver:    -1,      // hand-backs are free; claims are counted instead
		MaxAckPending: 100_000, // slots bound what is out, not the server
		MaxWaiting:    8192,
	})
	if err != nil {
		return nil, unmade(err, c.stream, c.name)
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
