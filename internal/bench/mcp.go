package bench

import (
	"context"
	"path/filepath"

	"github.com/seed-018f16cc/toolbus/internal/bench/mcp"
	"github.com/seed-018f16cc/toolbus/internal/bench/process"
)

// Targets for MCP gateway and adapter.
const (
	mcpAdded  = 1.0   // ms
	mcpMemory = 300.0 // MB
	mcpAtOnce = 1000
)

// bridged compares calls of an MCP server through Toolbus with direct calls of the same server.
func bridged(ctx context.Context, o Options, r *Report) error {
	h, err := o.startHost(ctx, "mcp", Process, Interval)
	if err != nil {
		return err
	}
	defer h.close()
	b, err := mcp.Measure(ctx, mcp.Options{
		URL: h.url, Dir: filepath.Join(h.dir, "tools"), Rounds: o.Rounds, Duration: o.Duration / 5, AtOnce: mcpAtOnce,
		Start: func(name string, args ...string) (*process.Process, error) {
			return o.startChild(ctx, h.dir, name, args...)
		},
		Node: func(name string, args ...string) (*process.Process, error) {
			return process.Start(ctx, o.Self, h.dir, name, args...)
		},
	})
	if err != nil {
		return err
	}
	r.Results = append(r.Results, Result{
		Scenario: MCP,
		Facts: []Fact{
			{"dispatcher, with 1,000 calls at once", b.Resident["dispatcher"], "MB"},
			{"executor", b.Resident["executor"], "MB"}, {"door", b.Resident["door"], "MB"},
			{"called directly, median", b.Direct, "ms"}, {"through a proxy, median", b.Proxy, "ms"},
			{"a call of the bus, median", b.Bus, "ms"}, {"through door, bus and adapter, median", b.Through, "ms"},
		},
		Checks: []Check{
			atMost("door and adapter add, ms", b.Added(), mcpAdded),
			atMost("door and executor with 1,000 calls at once, MB", b.Resident["executor"]+b.Resident["door"], mcpMemory),
		},
	})
	return nil
}
