package bench

import (
	"context"
	"path/filepath"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/bench/process"
	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
	processadapter "github.com/seed-018f16cc/toolbus/internal/tool/process"
)

// Size and targets of the idle scenario.
const (
	idleTools  = 100
	idleCPU    = 1.0  // per cent of a core
	idleMemory = 60.0 // MB
	idleSettle = 2 * time.Second
)

// idle measures the real commands with a hundred tools and without calls.
func idle(ctx context.Context, o Options, r *Report) error {
	h, err := o.startHost(ctx, "idle", Process, Interval)
	if err != nil {
		return err
	}
	defer h.close()
	dir := filepath.Join(o.Dir, "idle-tools")
	if err := writeTools(dir, idleTools, processadapter.Transport); err != nil {
		return err
	}
	res := Result{Scenario: Idle}
	var children []*process.Process
	names := []string{"dispatcher", "executor"}
	for _, name := range names {
		c, err := o.startHalf(ctx, h, name, dir)
		if err != nil {
			return err
		}
		defer c.Stop()
		children = append(children, c)
	}
	span := max(2*o.Duration, 10*time.Second)
	if !until(ctx, time.Now().Add(idleSettle)) {
		return ctx.Err()
	}
	used, err := o.watch(ctx, children, span)
	if err != nil {
		return err
	}
	for i, c := range children {
		mb, err := usage.ResidentMB(c.PID)
		if err != nil {
			return err
		}
		cpu := 100 * used[i].Seconds() / span.Seconds()
		o.say("idle: %s uses %.2f %% of a core and %.1f MB", names[i], cpu, mb)
		res.Checks = append(res.Checks, atMost(names[i]+", % of a core", cpu, idleCPU),
			atMost(names[i]+", MB", mb, idleMemory))
	}
	r.Results = append(r.Results, res)
	return nil
}

// watch returns the CPU time that each child uses during span.
func (o Options) watch(ctx context.Context, children []*process.Process, span time.Duration) ([]time.Duration, error) {
	used := make([]time.Duration, len(children))
	for _, sign := range []time.Duration{-1, 1} {
		for i, c := range children {
			cpu, err := usage.CPU(c.PID)
			if err != nil {
				return nil, err
			}
			used[i] += sign * cpu
		}
		if sign < 0 && !until(ctx, time.Now().Add(span)) {
			return nil, ctx.Err()
		}
	}
	return used, nil
}
