package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// streamLead is the target for the median delay of a first chunk after the answer to a short call.
const streamLead = 1.0 // ms

// stream compares the first chunk of a streaming call with the answer to a short call.
func stream(ctx context.Context, o Options, r *Report) (err error) {
	h, err := o.startHost(ctx, "stream", Process, Interval)
	if err != nil {
		return err
	}
	defer h.close()
	reg, err := o.registry(1)
	if err != nil {
		return err
	}
	p, err := startProduct(ctx, h, o, reg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	ids, in := &numbers{}, input(256)
	var short, first []float64
	for range o.Rounds + 1 {
		a, err := closed(ctx, ids, 1, o.Duration/2, func(ctx context.Context, n uint64) error {
			return p.call(ctx, key(n), toolID(0), in)
		})
		if err != nil {
			return err
		}
		var b firsts
		if _, err := closed(ctx, ids, 1, o.Duration/2,
			func(ctx context.Context, n uint64) error { return b.call(ctx, p, n) }); err != nil {
			return err
		}
		short, first = append(short, a.percentile(50)), append(first, b.median())
	}
	whole, chunk := median(short[1:]), median(first[1:])
	r.Results = append(r.Results, Result{
		Scenario: Stream,
		Facts:    []Fact{{"short call, median", whole, "ms"}, {"first chunk, median", chunk, "ms"}},
		Checks:   []Check{atMost("first chunk later than a short call, ms", chunk-whole, streamLead)},
	})
	o.say("stream: first chunk %.2f ms, short call %.2f ms", chunk, whole)
	return nil
}

// firsts collects the delays of first chunks.
type firsts struct {
	mu sync.Mutex
	ms []float64
}

func (f *firsts) call(ctx context.Context, p *product, n uint64) error {
	start := time.Now()
	var first time.Duration
	resp, err := p.client.Call(ctx, client.Call{
		Tool: toolID(0), Function: fnStream, Input: input(256), Key: key(n),
		OnChunk: func(c envelope.Chunk) error {
			if first == 0 {
				first = time.Since(start)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	if resp.Status != envelope.Success || first == 0 {
		return fmt.Errorf("streaming call: %s, first chunk after %s, error %v", resp.Status, first, resp.Error)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ms = append(f.ms, first.Seconds()*1000)
	return nil
}

func (f *firsts) median() float64 { return median(f.ms) }
