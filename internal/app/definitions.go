package app

import (
	"context"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// definitions returns, for the tools in the executor's pool that MCP servers define, which servers were compared and
// which tools have changed since their approval.
func definitions(o ExecutorOptions) (d heartbeat.Definitions) {
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
	return d
}

// missing returns the builds that the executor was handed work for and does not have.
func missing(e *executor.Executor) (all []heartbeat.MissingBuild) {
	for _, b := range e.Missing() {
		all = append(all, heartbeat.MissingBuild(b))
	}
	return all
}

// recheck lets adapters compare the definitions of tools again at an interval, until ctx ends. A changed tool is not
// called, so no call would find out that its server has undone the change.
func recheck(ctx context.Context, every time.Duration, o ExecutorOptions) {
	for timer.Sleep(ctx, every) {
		for _, a := range o.Adapters {
			if c, ok := a.(tool.Comparer); ok {
				c.Recheck(ctx, o.Tools.List())
			}
		}
	}
}
