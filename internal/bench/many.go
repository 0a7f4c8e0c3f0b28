package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

// Size and targets of the scenario with many tools.
const (
	manyTools   = 1000
	manyStart   = 5.0  // seconds
	manyPerCall = 1.10 // factor of the CPU time with one tool
)

// many measures the start of dispatcher and executor with a thousand tools, and calls spread over the tools.
func many(ctx context.Context, o Options, r *Report) error {
	res := Result{Scenario: Tools}
	if err := o.starts(ctx, &res); err != nil {
		return err
	}
	if err := o.perCall(ctx, &res); err != nil {
		return err
	}
	r.Results = append(r.Results, res)
	return nil
}

// starts measures how long the real commands take until they are ready.
func (o Options) starts(ctx context.Context, res *Result) error {
	h, err := o.startHost(ctx, "many", Process, Interval)
	if err != nil {
		return err
	}
	defer h.close()
	dir := filepath.Join(o.Dir, "many-tools")
	if err := writeTools(dir, manyTools, process.Transport); err != nil {
		return err
	}
	for _, name := range []string{"dispatcher", "executor"} {
		c, err := o.startHalf(ctx, h, name, dir)
		if err != nil {
			return err
		}
		defer c.Stop() // an executor is ready only after a dispatcher has answered it
		o.say("tools: %s with %d tools started in %.2f s", name, manyTools, c.Ready.Seconds())
		res.Checks = append(res.Checks, atMost(fmt.Sprintf("start of the %s with %d tools, s", name, manyTools),
			c.Ready.Seconds(), manyStart))
	}
	return nil
}

// perCall compares calls with one tool and with a thousand tools, in alternating rounds on two servers.
func (o Options) perCall(ctx context.Context, res *Result) (err error) {
	var sides []*side
	for _, n := range []int{1, manyTools} {
		s, err := o.withTools(ctx, n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		sides = append(sides, s)
	}
	ids := &numbers{}
	row := Row{Callers: 16}
	for i := range o.Rounds + 1 {
		for _, s := range sides {
			m, err := s.round(ctx, ids, row, o.Duration)
			if err != nil {
				return err
			}
			if i > 0 {
				s.rounds = append(s.rounds, m)
			}
		}
		runtime.GC()
	}
	var ratios []float64
	for i, m := range sides[0].rounds {
		ratios = append(ratios, sides[1].rounds[i].cpu()/m.cpu())
	}
	one, thousand := sides[0].stats(), sides[1].stats()
	o.say("tools: %.0f µs CPU per call with one tool, %.0f with %d", one.CPU, thousand.CPU, manyTools)
	res.Facts = append(res.Facts, Fact{"one tool, CPU per call", one.CPU, "µs"},
		Fact{"one tool", one.PerSecond, "calls/s"},
		Fact{"a thousand tools, CPU per call", thousand.CPU, "µs"}, Fact{"a thousand tools", thousand.PerSecond, "calls/s"})
	res.Checks = append(res.Checks, atMost("CPU per call, a thousand tools / one", median(ratios), manyPerCall))
	return nil
}

// withTools returns a side with n tools on a server of its own. Its calls take each tool in turn.
func (o Options) withTools(ctx context.Context, n int) (*side, error) {
	h, err := o.startHost(ctx, fmt.Sprint("tools", n), Process, Interval)
	if err != nil {
		return nil, err
	}
	reg, err := o.registry(n)
	if err != nil {
		h.close()
		return nil, err
	}
	p, err := startProduct(ctx, h, o, reg)
	if err != nil {
		h.close()
		return nil, err
	}
	in := input(256)
	s := &side{
		name: fmt.Sprint(n), settle: p.settle,
		stop:  func() error { err := p.stop(); h.close(); return err },
		call:  func(ctx context.Context, id uint64) error { return p.call(ctx, key(id), toolID(int(id)%n), in) },
		meter: meter{server: h.pid, conns: p.conns, js: p.js, streams: streams(o.Partitions)},
	}
	for i := range n { // the client fetches the description of each tool once
		if err := p.call(ctx, fmt.Sprintf("first-%016d", i), toolID(i), in); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	return s, nil
}
