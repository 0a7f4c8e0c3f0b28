package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// caller makes one call; n is unique in the process.
type caller func(ctx context.Context, n uint64) error

// numbers generates the numbers of calls, each different in the process.
type numbers struct{ n atomic.Uint64 }

// load is the result of one round for the callers.
type load struct {
	took      time.Duration
	latencies []time.Duration // sorted
}

// perSecond returns the number of calls per second.
func (l load) perSecond() float64 { return float64(len(l.latencies)) / l.took.Seconds() }

// percentile returns the latency in milliseconds that p per cent of the calls did not exceed.
func (l load) percentile(p int) float64 {
	if len(l.latencies) == 0 {
		return 0
	}
	at := (len(l.latencies)*p + 99) / 100
	return l.latencies[max(at-1, 0)].Seconds() * 1000
}

// closed makes calls from n callers, each in sequence, for d. The first error ends the round.
func closed(ctx context.Context, ids *numbers, n int, d time.Duration, call caller) (load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([][]time.Duration, n)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			for at := time.Now(); at.Sub(start) < d && ctx.Err() == nil; {
				if err := call(ctx, ids.n.Add(1)); err != nil {
					cancel(err)
					return
				}
				now := time.Now()
				parts[i] = append(parts[i], now.Sub(at))
				at = now
			}
		})
	}
	wg.Wait()
	return gather(ctx, parts, time.Since(start))
}

// open makes rate calls per second for d, without waiting for earlier calls. The latency of a call counts from the time
// when it was due, so that it includes a delay of the start.
func open(ctx context.Context, ids *numbers, rate int, d time.Duration, call caller) (load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total := int(d.Seconds() * float64(rate))
	parts := make([][]time.Duration, total)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range total {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if !until(ctx, due) {
			break
		}
		wg.Go(func() {
			if err := call(ctx, ids.n.Add(1)); err != nil {
				cancel(err)
				return
			}
			parts[i] = []time.Duration{time.Since(due)}
		})
	}
	wg.Wait()
	return gather(ctx, parts, time.Since(start))
}

// until waits until due. It returns false if ctx ended first.
func until(ctx context.Context, due time.Time) bool {
	return timer.Sleep(ctx, time.Until(due))
}

func gather(ctx context.Context, parts [][]time.Duration, took time.Duration) (load, error) {
	if err := context.Cause(ctx); err != nil {
		return load{}, fmt.Errorf("a call failed: %w", err)
	}
	l := load{took: took, latencies: slices.Concat(parts...)}
	slices.Sort(l.latencies)
	return l, nil
}
