package app

import (
	"context"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// definitions returns, for the tools in the executor's pool that MCP servers define, which servers were compared,
// which tools have changed since their approval, and which were not imported.
func (e *executorProcess) definitions() (d heartbeat.Definitions) {
	o := e.options
	for _, m := range o.Tools.List() {
		server, definition := m.Approved()
		comparer, ok := o.Adapters[m.Transport].(tool.Comparer)
		if !ok || definition == "" || m.Pool != o.Pool {
			continue
		}
		verdict := comparer.Compared(m)
		if verdict != tool.NotCompared && !slices.Contains(d.Compared, server) {
			d.Compared = append(d.Compared, server)
		}
		if verdict == tool.Changed {
			d.Changed = append(d.Changed, heartbeat.ChangedTool{Tool: m.ToolID, Definition: definition})
		}
	}
	for _, a := range o.Adapters {
		if c, ok := a.(tool.Comparer); ok {
			d.Offered, d.Announced = c.Offered(o.Tools.List()), c.Announced(o.Tools.List()) // one adapter compares
		}
	}
	return d
}

// builds returns the builds that the executor has of the tools of its pool.
func (e *executorProcess) builds() heartbeat.Builds {
	all := heartbeat.Builds{}
	for _, m := range e.options.Tools.Builds() {
		if m.Pool == e.options.Pool {
			all[m.ToolID] = append(all[m.ToolID], call.ShortDigest(m.Digest))
		}
	}
	return all
}

// missing returns the builds that the executor was handed work for and does not have.
func (e *executorProcess) missing() (all []heartbeat.MissingBuild) {
	for _, b := range e.executor.Missing() {
		all = append(all, heartbeat.MissingBuild(b))
	}
	return all
}

// recheck lets adapters compare the definitions of tools again, every third of a lease, until ctx ends. A changed tool
// is not called, so no call would find out that its server has undone the change.
func (e *executorProcess) recheck(ctx context.Context) {
	for timer.Sleep(ctx, e.Lease/3) {
		for _, a := range e.options.Adapters {
			if c, ok := a.(tool.Comparer); ok {
				c.Recheck(ctx, e.options.Tools.List())
			}
		}
	}
}
