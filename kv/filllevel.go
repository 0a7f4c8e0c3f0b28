package kv

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// FillLevel monitors the size of the call log. Dispatchers admit no calls while a partition is at least 85 per cent
// full, so that decisions still find room. Make one with [Log.FillLevel]. Its methods are safe for concurrent use.
type FillLevel struct {
	js   jetstream.JetStream
	full []atomic.Bool // by partition
}

const (
	fillInterval = time.Second
	highWater    = 85 // per cent
)

// FillLevel returns a FillLevel of the log. It reports nothing until its Run is called.
func (l *Log) FillLevel() *FillLevel { return &FillLevel{l.js, make([]atomic.Bool, l.Partitions())} }

// Run measures the partitions every second until ctx ends.
func (g *FillLevel) Run(ctx context.Context) {
	for ok := true; ok; ok = timer.Sleep(ctx, fillInterval) {
		for p := range g.full {
			g.measure(ctx, subjects.Partition(p))
		}
	}
}

// measure reads the size of a partition. If that fails, the last result stays.
func (g *FillLevel) measure(ctx context.Context, p subjects.Partition) {
	ctx, cancel := context.WithTimeout(ctx, fillInterval)
	defer cancel()
	stream, err := g.js.Stream(ctx, p.Stream())
	if err != nil {
		return
	}
	i := stream.CachedInfo()
	g.full[p].Store(i.Config.MaxBytes > 0 && i.State.Bytes*100 >= uint64(i.Config.MaxBytes)*highWater)
}

// LogFull reports whether a partition was at least 85 per cent full when it was measured last.
func (g *FillLevel) LogFull() bool {
	for p := range g.full {
		if g.full[p].Load() {
			return true
		}
	}
	return false
}
