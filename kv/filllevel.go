package kv

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// FillLevel watches how full the call log is. Admission stops when a partition is at the high-water mark, so that
// decisions always find room. Its methods are safe for concurrent use.
type FillLevel struct {
	js   jetstream.JetStream
	full []atomic.Bool // by partition
}

const (
	fillInterval = time.Second
	highWater    = 85 // per cent
)

// FillLevel returns one of this log; Run must be called for it to watch.
func (l *Log) FillLevel() *FillLevel { return &FillLevel{l.js, make([]atomic.Bool, l.Partitions())} }

// Run watches until ctx ends.
func (g *FillLevel) Run(ctx context.Context) {
	for ok := true; ok; ok = timer.Sleep(ctx, fillInterval) {
		for p := range g.full {
			g.measure(ctx, subjects.Partition(p))
		}
	}
}

// measure reads how full a partition is. One that cannot be read is as full as it was.
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

// LogFull reports whether a partition is at the high-water mark.
func (g *FillLevel) LogFull() bool {
	for p := range g.full {
		if g.full[p].Load() {
			return true
		}
	}
	return false
}
