package app

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

// AdapterOptions are what tools of folders need on a host.
type AdapterOptions struct {
	Environ    []string // NAME=value, from which manifests and servers.json pick
	Supervisor string   // the program that ends processes; default as supervisor.Find says
	Version    string   // of this build, as MCP servers are told it
	Logger     *slog.Logger
}

// Adapters returns what runs the tools of folders, by transport: none that no tool needs.
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

// rest ends what adapters keep between calls.
func rest(adapters map[string]tool.Adapter) {
	for _, a := range adapters {
		if kept, ok := a.(interface{ Rest() }); ok {
			kept.Rest()
		}
	}
}
