package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/cli/mcpcmd"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func toolsCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "tools", Short: "List, show, write and lint tools, and import tools of MCP servers", GroupID: "use",
		Example: "  toolbus tools list\n  toolbus tools show text.search\n  toolbus tools new greet --lang python\n" +
			"  toolbus tools lint ./tools",
	})
	cmd.AddCommand(toolsList(g), toolsShow(g), toolsNew(g), toolsLint(g), toolsSchema(g), mcpcmd.Import(g.env.common()),
		mcpcmd.Approve(g.env.common()))
	return cmd
}

func toolsList(g *global) *cobra.Command {
	var from describing
	cmd := &cobra.Command{
		Use: "list", Short: "List the tools of the bus or of a folder", Args: cli.NoArgs,
		Long: `Lists the tools that you can call: those of which the policy could allow at least one call in a role of your
token. An operator's token lists all tools of the bus.`,
		Example: "  toolbus tools list\n  toolbus tools list --json | jq -r '.[].tool_id'\n" +
			"  toolbus tools list --tools ./tools",
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, done, err := g.describer(cmd.Context(), from)
			if err != nil {
				return err
			}
			defer done()
			d, err := from.Tools(cmd.Context())
			if err != nil {
				return err
			}
			return g.print(d.Tools, func(w io.Writer) error { return listTools(w, d) })
		},
	}
	from.flags(cmd)
	g.completePolicy(cmd)
	return cmd
}

func toolsShow(g *global) *cobra.Command {
	var from describing
	cmd := &cobra.Command{
		Use: "show TOOL", Short: "Show one tool: the fields of its manifest, functions, schemas, errors",
		Long: `Shows what a dispatcher, or with --tools a folder, says of a tool: the fields of its manifest with what
Toolbus does with them (enforced, inputs only, recorded, or declared only), its functions with schemas and examples,
and its errors. Only --tools shows the endpoint, such as the command: the bus does not tell it to callers.
The bus answers for a tool of which the policy can allow you no call as for one that does not exist.`,
		Example:           "  toolbus tools show text.search\n  toolbus tools show text.search --tools ./tools",
		Args:              cli.Args(1, 1, "one tool id"),
		ValidArgsFunction: g.completeTools(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, done, err := g.describer(cmd.Context(), from)
			if err != nil {
				return err
			}
			defer done()
			t, err := from.Tool(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return g.print(t, func(w io.Writer) error { return showTool(w, t, endpointOf(from, t.ToolID)) })
		},
	}
	from.flags(cmd)
	g.completePolicy(cmd)
	return cmd
}

func toolsSchema(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of tool.yaml for editors", Args: cli.NoArgs,
		Long: `Prints the JSON Schema (2020-12) of tool.yaml, with the endpoints of all transports and with all aliases of
fields. It is the schema that the loader uses. Editors with a YAML language server read its name from the first
line of a manifest:
# yaml-language-server: $schema=./tool.schema.json`,
		Example: "  toolbus tools schema > tool.schema.json",
		RunE: func(*cobra.Command, []string) error {
			text, err := tool.Published(app.Transports()...)
			if err != nil {
				return err
			}
			_, err = g.env.stdout.Write(text)
			return err
		},
	}
}

// describing says where a command gets the descriptions of tools from.
type describing struct{ folder, role string }

func (d *describing) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.folder, "tools", "", "`DIR` with one folder for each tool, in the place of the bus")
	cmd.Flags().StringVar(&d.role, "role-id", "", "`ID` of the role in which the tools are called (default: each role "+
		"of the token, without tokens the default role of the bus)")
}

// describer describes tools: a client of the bus, or a folder.
type describer interface {
	Tools(ctx context.Context) (envelope.DescribeResponse, error)
	Tool(ctx context.Context, id string) (envelope.ToolInfo, error)
}

// describer returns the describer of a folder, or that of the bus without one. The function closes it.
func (g *global) describer(ctx context.Context, d describing) (from describer, done func(), err error) {
	if d.folder == "" {
		c, done, err := g.client(ctx)
		return onBus{c, envelope.DescribeRequest{RoleID: d.role}}, done, err
	}
	set, err := tool.Load(d.folder, app.Transports()...)
	if err != nil {
		return nil, nil, err
	}
	return described{set}, func() {}, nil
}

// onBus describes the tools of the bus that the request selects.
type onBus struct {
	client interface { // of callers, or of operators
		DescribeTools(context.Context, envelope.DescribeRequest) (envelope.DescribeResponse, error)
		DescribeTool(context.Context, envelope.DescribeRequest) (envelope.ToolInfo, error)
	}
	as envelope.DescribeRequest
}

func (b onBus) Tools(ctx context.Context) (envelope.DescribeResponse, error) {
	return b.client.DescribeTools(ctx, b.as)
}

func (b onBus) Tool(ctx context.Context, id string) (envelope.ToolInfo, error) {
	b.as.Tool = id
	return b.client.DescribeTool(ctx, b.as)
}

// described describes the tools of a folder as dispatchers do.
type described struct{ set *tool.Set }

func (d described) Tools(context.Context) (all envelope.DescribeResponse, err error) {
	for q := (envelope.DescribeRequest{}); ; {
		list, more := d.set.Describe(q)
		if all.Tools = append(all.Tools, list...); !more {
			return all, nil
		}
		q.After = list[len(list)-1].ToolID
	}
}

func (d described) Tool(_ context.Context, id string) (envelope.ToolInfo, error) {
	list, _ := d.set.Describe(envelope.DescribeRequest{Tool: id})
	if len(list) == 0 {
		return envelope.ToolInfo{}, toolbus.NewError(envelope.NoTool(id, d.set.IDs()), nil)
	}
	return list[0], nil
}

// endpointOf returns the endpoint of a tool of a folder, such as its command, or "".
func endpointOf(from describer, id string) string {
	if d, ok := from.(described); ok {
		if m, _ := d.set.Get(id, ""); m.Endpoint != nil {
			return m.Endpoint.Name()
		}
	}
	return ""
}
