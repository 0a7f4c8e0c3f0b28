package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/bench/flood"
	"github.com/seed-018f16cc/toolbus/internal/bench/process"
	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// Load and targets of the flood scenario.
const (
	bystanderRate = 50   // calls per second
	floodGrowth   = 50.0 // in ms; growth of the bystander's p99
	// floodMemory is the limit of a dispatcher's memory in MB: its queues, buffers of the connection, the budget for large
	// payloads, and garbage that is not collected yet.
	floodMemory = 700.0
)

// flooded measures what floods by one actor cost the calls of another actor of the same tenant.
func flooded(ctx context.Context, o Options, r *Report) error {
	res := Result{Scenario: Flood}
	quiet, _, err := o.bystand(ctx, "", &res)
	if err != nil {
		return err
	}
	for _, kind := range flood.Kinds() {
		l, memory, err := o.bystand(ctx, kind, &res)
		if err != nil {
			return err
		}
		res.Checks = append(res.Checks, atMost(kind+": memory of the dispatcher, MB", memory, floodMemory))
		res.Checks = append(res.Checks,
			atMost(kind+": growth of the bystander's p99, ms", l.percentile(99)-quiet.percentile(99), floodGrowth))
	}
	r.Results = append(r.Results, res)
	return nil
}

// bystand measures calls at the bystander's rate during a flood of a kind, or without a flood if kind is "". It uses a
// new bus.
func (o Options) bystand(ctx context.Context, kind string, res *Result) (l load, memory float64, err error) {
	d, err := o.startDrain(ctx)
	if err != nil {
		return l, 0, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	call := func(ctx context.Context, n uint64) error {
		r, err := d.client.Call(ctx, client.Call{
			Tool: toolID(0), Function: fnEcho, Input: input(256), Key: key(n), Timeout: time.Minute,
		})
		if err == nil && r.Status != envelope.Success {
			err = fmt.Errorf("the bystander is told %s: %s", r.Error.Code, r.Error.Message)
		}
		return err
	}
	if _, err := open(ctx, &d.ids, bystanderRate, o.Duration/2, call); err != nil { // warm-up
		return l, 0, err
	}
	sent, err := o.startFlood(ctx, d.host, kind)
	if err != nil {
		return l, 0, err
	}
	for done := false; !done; {
		part, err := open(ctx, &d.ids, bystanderRate, o.Duration, call)
		if err != nil {
			return l, 0, err
		}
		l.took += part.took
		l.latencies = append(l.latencies, part.latencies...)
		now, err := usage.ResidentMB(d.dispatcher.PID)
		if err != nil {
			return l, 0, err
		}
		memory = max(memory, now)
		select {
		case err := <-sent:
			if err != nil {
				return l, 0, err
			}
			done = true
		default:
		}
	}
	slices.Sort(l.latencies)
	name := word(kind, "quiet")
	o.say("flood: %s: p50 %.1f ms, p99 %.1f ms, %d calls in %.0f s, dispatcher %.0f MB", name, l.percentile(50),
		l.percentile(99), len(l.latencies), l.took.Seconds(), memory)
	res.Facts = append(res.Facts, Fact{name + ": p50", l.percentile(50), "ms"},
		Fact{name + ": p99", l.percentile(99), "ms"}, Fact{name + ": dispatcher", memory, "MB"})
	return l, memory, nil
}

// startFlood starts a process that sends a flood, if kind is not "". sent receives a value when the flood is sent. The
// flood comes from one process, because on a small machine starting it takes longer than sending much of the flood.
func (o Options) startFlood(ctx context.Context, h *host, kind string) (sent <-chan error, err error) {
	over := make(chan error, 1)
	if kind == "" {
		over <- nil
		return over, nil
	}
	args, err := h.node(kind)
	if err != nil {
		return nil, err
	}
	c, err := process.Start(ctx, o.Self, h.dir, kind, args...)
	if err != nil {
		return nil, err
	}
	go func() { // ends when the flood is sent, or with ctx
		defer context.AfterFunc(ctx, c.Stop)()
		over <- c.Wait()
	}()
	return over, nil
}
