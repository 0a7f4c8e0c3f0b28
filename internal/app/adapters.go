package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// AdapterOptions configures the adapters of the tools that are defined in folders.
type AdapterOptions struct {
	Environ    []string // NAME=value; manifests and servers.json select variables from it
	Supervisor string   // path of the supervisor program; "" as in supervisor.Find
	Version    string   // of this build; the MCP adapter sends it to servers as its client version
	Logger     *slog.Logger
}

// Adapters returns the adapters that the tools need, keyed by transport.
func Adapters(tools []*tool.Manifest, o AdapterOptions) (map[string]tool.Adapter, error) {
	adapters := map[string]tool.Adapter{}
	needs := func(transport string) bool {
		return slices.ContainsFunc(tools, func(m *tool.Manifest) bool { return m.Transport == transport })
	}
	var err error
	if needs(process.Transport) {
		adapters[process.Transport], err = process.New(process.Options{Environ: o.Environ, Supervisor: o.Supervisor})
	}
	if needs(mcp.Transport) {
		adapters[mcp.Transport] = mcp.New(mcp.Options{
			Environ: o.Environ, Supervisor: o.Supervisor, Client: o.Version, Logger: o.Logger,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("tools of folders need a supervisor: call toolbus.SupervisorMain first in main: %w", err)
	}
	return adapters, nil
}

// runsReach returns the power of the adapters' runs over other processes of this host.
func runsReach(adapters map[string]tool.Adapter) supervisor.Reach {
	if adapters[process.Transport] == nil && adapters[mcp.Transport] == nil {
		return supervisor.ReachOwn // no tool runs as a process
	}
	return supervisor.HostReach()
}

// useLogins passes the store of logins to the adapters that need one.
func useLogins(adapters map[string]tool.Adapter, s oauth.Store) {
	for _, a := range adapters {
		if needs, ok := a.(interface{ UseLogins(oauth.Store) }); ok {
			needs.UseLogins(s)
		}
	}
}

// serve calls Serves of the adapters that have it, for calls that go on for as long as they may.
func serve(ctx context.Context, adapters map[string]tool.Adapter, slots int) {
	for _, a := range adapters {
		if bounds, ok := a.(interface{ Serves(context.Context, int) }); ok {
			bounds.Serves(ctx, slots)
		}
	}
}

// rest calls Rest of the adapters that have it. It ends what they keep between calls, such as MCP server processes.
func rest(adapters map[string]tool.Adapter) {
	for _, a := range adapters {
		if kept, ok := a.(interface{ Rest() }); ok {
			kept.Rest()
		}
	}
}
