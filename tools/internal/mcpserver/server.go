package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/mcp"
)

// Tool is a tool of a server.
type Tool struct {
	Program program.Tool // it has the one function of the manifest
	// Means says which error of the contract each of its other errors is told as. The name of the other one is then the
	// member kind of the details.
	Means map[string]string
}

// Main serves the tools, by their ids, over standard input and output until the input ends, or SIGTERM or SIGINT comes;
// then it runs end. Its result is the exit status.
func Main(server string, tools map[string]Tool, end func()) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	s, err := New(server, tools)
	if err == nil {
		err = s.Run(ctx, &sdk.StdioTransport{})
	}
	end()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// New returns the server of that name in the manifests. The error says where tools and manifests do not fit.
func New(server string, tools map[string]Tool) (*sdk.Server, error) {
	known, err := tool.LoadFS(mcptools.Files, mcp.Describe())
	if err != nil {
		return nil, err
	}
	s := sdk.NewServer(&sdk.Implementation{Name: server, Version: "1.0.0"}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	for _, m := range known.List() {
		e, _ := m.Endpoint.(mcp.Endpoint)
		if e.Server != server {
			continue
		}
		one := runner{manifest: m, tool: tools[m.ToolID]}
		if err := one.check(); err != nil {
			return nil, err
		}
		s.AddTool(one.definition(e.Tool), one.call)
	}
	return s, nil
}

// runner runs the calls of a tool.
type runner struct {
	manifest *tool.Manifest
	tool     Tool
}

// fn is the one function that a tool of MCP has.
func (r runner) fn() (fn *tool.Function) {
	for _, f := range r.manifest.Functions {
		fn = f
	}
	return fn
}

func (r runner) check() error {
	if len(r.manifest.Functions) != 1 || r.tool.Program[r.fn().Name].Execute == nil {
		return fmt.Errorf("no program has the one function of %s", r.manifest.ToolID)
	}
	for _, means := range r.tool.Means {
		if _, declared := r.manifest.Errors[means]; !declared {
			return fmt.Errorf("%s has no error %s", r.manifest.ToolID, means)
		}
	}
	return nil
}

// definition is what clients are told of a tool.
func (r runner) definition(name string) *sdk.Tool {
	m, fn := r.manifest, r.fn()
	destructive, open := m.Class == call.SideEffectful, true
	return &sdk.Tool{
		Name: name, Title: m.Title, Description: m.Description + " " + fn.Description,
		InputSchema: raw(fn.Request), OutputSchema: raw(fn.Response),
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint: !destructive, IdempotentHint: !destructive, DestructiveHint: &destructive, OpenWorldHint: &open,
		},
	}
}
