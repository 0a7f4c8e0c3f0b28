package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Partitions returns how many partitions the call log has. Each of them says so. An error is also that they
// do not agree: with another number an id would be looked for elsewhere, and its call run again.
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

// PartitionsBefore returns how many partitions a call log had whose first one may be gone: 1 where nothing
// is left of it.
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

// said returns what a partition says: 1 where it says nothing.
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
