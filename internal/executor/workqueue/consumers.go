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

// MaxPools is the largest number of pools of one log. A stream has at most 1,000 consumers, of which each pool has 12,
// and processes that follow the log have some, too.
const MaxPools = 80

// Consumer is the info of the NATS consumer of one queue in one partition at one time.
type Consumer struct {
	Stream    string    `json:"stream"`
	Name      string    `json:"name"`
	Created   time.Time `json:"created,omitzero"` // zero: it does not exist
	Delivered uint64    `json:"delivered,omitzero"`
}

// Consumers reads the infos of the consumers of a pool.
type Consumers interface {
	// Look returns the infos of all consumers that exist, as of a time between its call and its return.
	Look(ctx context.Context) ([]Consumer, error)
}

// KeptConsumers creates the consumers of a pool and reads their infos. Its methods are safe for concurrent use.
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
	work   string // subject filter of the consumer
	next   string // subject of pull requests
}

// consumersOf returns the names for all queues of a pool in all partitions.
func consumersOf(pool string, partitions int) (all []consumerNames) {
	for p := range subjects.Partition(partitions) {
		for _, q := range queues() {
			token := q.token()
			all = append(all, consumerNames{
				q, p.Stream(), subjects.Worker(pool, token), p.WorkFilter(pool, token), p.NextWork(pool, token),
			})
		}
	}
	return all
}

// Keep returns a KeptConsumers for a pool. The acknowledgement timeout of the consumers is lease: work whose executor
// reports no progress for that time is delivered to another one.
func Keep(js jetstream.JetStream, pool string, partitions int, lease time.Duration) *KeptConsumers {
	return &KeptConsumers{js: js, pool: pool, all: consumersOf(pool, partitions), lease: lease, makes: true}
}

// Watch returns a KeptConsumers whose Look only reads infos and creates no consumers.
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

// Look implements [Consumers]. It creates missing consumers, unless k is from [Watch].
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
		MaxDeliver:    -1,      // a nak does not count as an attempt; claims are counted instead
		MaxAckPending: 100_000, // the slots of executors limit it
		MaxWaiting:    8192,
	})
	if err != nil {
		return nil, unmade(err, c.stream, c.name)
	}
	return cons, nil
}

// unmade returns the error for a consumer that the server did not create. The server can neither open nor delete a
// consumer with damaged files.
func unmade(err error, stream, consumer string) error {
	err = fmt.Errorf("consumer %s of stream %s: %w", consumer, stream, err)
	if !bus.HasErrorCode(err, bus.CodeConsumerCreate, bus.CodeConsumerStore) {
		return err
	}
	return fmt.Errorf("%w; if its files are damaged, remove the folder streams/%s/obs/%s of the account in the "+
		"store_dir of the server, and start the dispatcher again, which makes the consumer again: see "+
		"\"A damaged consumer\" in docs/operations.md", err, stream, consumer)
}
