package kv

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// FillLevel monitors the size of the call log. Dispatchers admit no calls while a partition is at least 85 per cent
// full, so that decisions still find room. While it is half full, they admit none of a sender that keeps more than its
// share. Make one with [Log.FillLevel]. Its methods are safe for concurrent use.
type FillLevel struct {
	js      jetstream.JetStream
	percent []atomic.Int64 // by partition
	size    atomic.Int64   // of all partitions in bytes, if each has a limit
	shares  *shares
}

const (
	fillInterval = time.Second
	highWater    = 85 // per cent
)

// FillLevel returns a FillLevel of the log, which reports nothing until its Run is called. It logs to log when it must
// count the shares again.
func (l *Log) FillLevel(log *slog.Logger) *FillLevel {
	g := &FillLevel{js: l.js, percent: make([]atomic.Int64, l.Partitions())}
	g.shares = &shares{fill: g, log: log, kept: map[subjects.Owner]*kept{}}
	return g
}

// Run measures the partitions every second until ctx ends.
func (g *FillLevel) Run(ctx context.Context) {
	var counting sync.WaitGroup
	defer counting.Wait()
	counting.Go(func() { g.shares.run(ctx) })
	for ok := true; ok; ok = timer.Sleep(ctx, fillInterval) {
		for p := range g.partitions() {
			g.measure(ctx, p)
		}
	}
}

func (g *FillLevel) partitions() subjects.Partition { return subjects.Partition(len(g.percent)) }

// measure reads the size of a partition. If that fails, the last result stays.
func (g *FillLevel) measure(ctx context.Context, p subjects.Partition) {
	ctx, cancel := context.WithTimeout(ctx, fillInterval)
	defer cancel()
	stream, err := g.js.Stream(ctx, p.Stream())
	if err != nil {
		return
	}
	i := stream.CachedInfo()
	if limit := i.Config.MaxBytes; limit > 0 {
		g.percent[p].Store(int64(i.State.Bytes) * 100 / limit)
		g.size.Store(limit * int64(len(g.percent))) // all partitions have the same limit
	}
}

// level returns how full the fullest partition was when it was measured last, in per cent.
func (g *FillLevel) level() (percent int64) {
	for p := range g.percent {
		percent = max(percent, g.percent[p].Load())
	}
	return percent
}

// LogFull reports whether a partition was at least 85 per cent full when it was measured last.
func (g *FillLevel) LogFull() bool { return g.level() >= highWater }

// Over returns what an actor with its sub-actors, or its tenant, keeps in the log, and the share of which that is more,
// in bytes. It returns zeros while no share is exceeded, or the log is less than half full.
func (g *FillLevel) Over(of subjects.Owner) (used, share int64) {
	if g.level() < sharesFrom {
		return 0, 0
	}
	return g.shares.over(of, g.size.Load())
}
