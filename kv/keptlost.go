package kv

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// unsynced is the default sync_interval of nats-server: of that time it may lose the events in a power cut.
const unsynced = 2 * time.Minute

// lacksSynced reports whether the log lacks events that the server has synced: the log ends before the list, and the
// first event that it lacks was stored longer than unsynced before the last one. A power cut does not lose it. Somebody
// has deleted the stream, or has put an old copy in its place. The newest steps of the list have the times.
func (k *keptPart) lacksSynced(ctx context.Context) (bool, error) {
	stream, err := k.log.js.Stream(ctx, k.part.Stream())
	if err != nil {
		return false, err
	}
	end, first := stream.CachedInfo().State.LastSeq, k.last.at
	cfg := jetstream.OrderedConsumerConfig{NamePrefix: rand.Text(), FilterSubjects: []string{k.part.KeptSteps()}}
	for m, err := range bus.Messages(ctx, k.log.js, subjects.KeptStream, cfg, keptLoad) {
		if err != nil {
			return false, err
		}
		step, err := decodeKept(m.Data())
		if err != nil {
			return false, err
		}
		if step.through > end && !step.at.IsZero() && step.at.Before(first) {
			first = step.at
		}
	}
	return k.last.at.Sub(first) > unsynced, nil
}
