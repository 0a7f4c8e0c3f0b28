package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Partitions returns the number of partitions of the call log, from the metadata of the first stream. It returns an
// error if the call log has more streams than that: with a wrong number, dispatchers would look for the log of an id in
// another partition, and run its call again.
func Partitions(ctx context.Context, js jetstream.JetStream) (int, error) {
	n, err := said(ctx, js, 0)
	if err != nil {
		return 0, fmt.Errorf("call log: %w", err)
	}
	if n >= subjects.MaxPartitions {
		return n, nil
	}
	next := subjects.Partition(n).Stream()
	switch _, err := js.Stream(ctx, next); {
	case err == nil:
		return 0, fmt.Errorf("call log: the stream %s is there, and %s says that there are %d partitions: give it back the "+
			"metadata %q that the others have",
			next, subjects.Partition(0).Stream(), n, subjects.MetaPartitions)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, fmt.Errorf("call log: %w", err)
	}
	return n, nil
}

// PartitionsBefore returns the number of partitions of a call log whose first stream may be lost. It reads the metadata
// of the first or second stream, and returns 1 if neither exists.
func PartitionsBefore(ctx context.Context, js jetstream.JetStream) (int, error) {
	for p := range subjects.Partition(2) {
		n, err := said(ctx, js, p)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		return n, err
	}
	return 1, nil
}

// said returns the number of partitions in the metadata of a partition, and 1 if the metadata has none.
func said(ctx context.Context, js jetstream.JetStream, p subjects.Partition) (int, error) {
	stream, err := js.Stream(ctx, p.Stream())
	if err != nil {
		return 0, err
	}
	says, ok := stream.CachedInfo().Config.Metadata[subjects.MetaPartitions]
	if !ok {
		return 1, nil
	}
	n, err := strconv.Atoi(says)
	if err != nil || n < 1 || n > subjects.MaxPartitions {
		return 0, fmt.Errorf("stream %s: its metadata says that the call log has %.20q partitions: it is 1 to %d",
			p.Stream(), says, subjects.MaxPartitions)
	}
	return n, nil
}
