package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/bench/process"
	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// Sizes and targets of the scenario with large payloads.
const (
	largeSize   = 50_000_000 // bytes of input and of output
	largeRounds = 9          // calls in sequence
	largeAtOnce = 6
	largeLook   = 10 * time.Millisecond // interval of memory measurements
	// largeMemory is the limit of a dispatcher's memory in MB while six calls run.
	largeMemory = 200.0
)

// large measures calls with an input and an output of 50 MB: in sequence, and six at a time.
func large(ctx context.Context, o Options, r *Report) (err error) {
	d, err := o.startDrain(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if _, err := d.large(ctx, 1); err != nil { // warm-up
		return err
	}
	var took []float64
	for range largeRounds {
		one, err := d.large(ctx, 1)
		if err != nil {
			return err
		}
		took = append(took, one.Seconds()*1000)
	}
	slices.Sort(took)
	watch := watchMemory(d.dispatcher, d.executor)
	together, err := d.large(ctx, largeAtOnce)
	peaks, lost := watch()
	if err := errors.Join(err, lost); err != nil {
		return err
	}
	o.say("large: one %.0f ms (%.0f to %.0f), six at once %.0f ms, dispatcher %.0f MB, executor %.0f MB", median(took),
		took[0], took[len(took)-1], together.Seconds()*1000, peaks[0], peaks[1])
	r.Results = append(r.Results, Result{
		Scenario: Large,
		Facts: []Fact{
			{"one call, median", median(took), "ms"}, {"six at once", together.Seconds() * 1000, "ms"},
			{"dispatcher", peaks[0], "MB"}, {"executor", peaks[1], "MB"},
		},
		Checks: []Check{atMost("memory of the dispatcher, MB", peaks[0], largeMemory)},
	})
	return nil
}

// large makes n calls at a time and returns how long they take together.
func (d *draining) large(ctx context.Context, n int) (time.Duration, error) {
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		g.Go(func() error {
			in := input(largeSize)
			copy(in[len(in)/2:], fmt.Sprintf("%032d", d.ids.n.Add(1))) // unique content, so that each input is stored by itself
			r, err := d.client.Call(ctx, client.Call{
				Tool: toolID(0), Function: fnEcho, Input: in, Key: key(d.ids.n.Add(1)), Timeout: time.Minute,
			})
			switch {
			case err != nil:
				return err
			case r.Status != envelope.Success:
				return fmt.Errorf("a large call is told %s: %s", r.Error.Code, r.Error.Message)
			case len(r.Output) != len(in):
				return fmt.Errorf("%d bytes of %d came back", len(r.Output), len(in))
			}
			return nil
		})
	}
	err := g.Wait()
	return time.Since(began), err
}

// watchMemory measures the memory of processes at an interval until the returned function is called. That function
// returns the maximum of each process in MB.
func watchMemory(of ...*process.Process) func() ([]float64, error) {
	over, done := make(chan struct{}), make(chan error)
	peaks := make([]float64, len(of))
	go func() { // ends when the returned function is called
		tick := time.NewTicker(largeLook)
		defer tick.Stop()
		var failed error
		for {
			for i, p := range of {
				now, err := usage.ResidentMB(p.PID)
				failed = errors.Join(failed, err)
				peaks[i] = max(peaks[i], now)
			}
			select {
			case <-tick.C:
			case <-over:
				done <- failed
				return
			}
		}
	}()
	return func() ([]float64, error) {
		close(over)
		err := <-done
		return peaks, err
	}
}
