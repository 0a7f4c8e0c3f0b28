package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// watchTools looks every lease which tools could not run, until ctx ends. Heartbeats report them.
func (e *executorProcess) watchTools(ctx context.Context) {
	for e.lookAtTools(); timer.Sleep(ctx, e.Lease); {
		e.lookAtTools()
	}
}

func (e *executorProcess) lookAtTools() {
	var all []heartbeat.UnrunnableTool
	for _, u := range executor.Unrunnable(e.options.Tools.List(), e.options.Adapters, e.options.Pool) {
		all = append(all, heartbeat.UnrunnableTool{Tool: u.Tool, Why: u.Why.Error()})
	}
	e.unrunnable.Store(&all)
}

// unrunnableTools returns the tools of which no run could start when [executorProcess.watchTools] looked last.
func (e *executorProcess) unrunnableTools() []heartbeat.UnrunnableTool {
	if all := e.unrunnable.Load(); all != nil {
		return *all
	}
	return nil
}
