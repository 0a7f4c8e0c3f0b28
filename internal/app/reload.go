package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Fits returns an error if the executor could not run a tool that is added to its Tools later.
func (o ExecutorOptions) Fits(m *tool.Manifest) error {
	pool := cmp.Or(o.Pool, tool.DefaultPool)
	if m.Pool == pool && m.Callable() && o.Adapters[m.Transport] == nil {
		return fmt.Errorf("it is the first tool of transport %s: restart the process", m.Transport)
	}
	for _, a := range o.Adapters {
		if cached, ok := a.(interface{ Reread() }); ok {
			cached.Reread()
		}
	}
	return executor.CannotRun(m, o.Adapters, pool)
}

// Fits returns a function that returns an error if the dispatcher could not take calls of a tool that is added to its
// Tools later: it makes queues for the pools of its first tools.
func (o DispatcherOptions) Fits() func(*tool.Manifest) error {
	pools := poolsOf(o.Tools)
	return func(m *tool.Manifest) error {
		if !slices.Contains(pools, m.Pool) {
			return fmt.Errorf("it is the first tool of the pool %s: restart the process", m.Pool)
		}
		return nil
	}
}

// followTools lets the policy go on with the tools after each change of these, until ctx ends.
func (d *dispatcherParts) followTools(ctx context.Context) {
	tools := d.options.Tools
	for changed := tools.Replaced(); ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		changed = tools.Replaced() // before the tools are read
		d.policy.Use(tools.List())
		err := d.allowAll(ctx) // its set follows the tools
		if err = cmp.Or(err, d.policy.Refit(ctx)); err != nil && ctx.Err() == nil {
			d.Logger.Error("the policy in force does not fit the changed tools: calls of these are refused", "err", err)
		}
	}
}

// followTools looks at changed tools, until ctx ends. It reconnects for new ones: the permissions of a connection name
// the tools of the pool.
func (e *executorProcess) followTools(ctx context.Context) {
	tools := e.options.Tools
	may := toolsOf(tools, e.options.Pool)
	for changed := tools.Replaced(); ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		changed = tools.Replaced() // before the tools are read
		e.lookAtTools()
		now := toolsOf(tools, e.options.Pool)
		if e.Identity && slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(may, id) }) {
			e.workers.Pause()
			_ = e.NC.ForceReconnect() // fails only on a closed connection
		}
		may = now
	}
}
