package mcpcmd

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// Connect connects to the bus of the command line in a role, as the caller of the command line.
type Connect func(ctx context.Context, r auth.Role) (*toolbus.Conn, *toolbus.Client, error)

// Serve returns the command that serves one MCP client over standard input and output.
func Serve(env cli.Env, stdin io.Reader, connect Connect) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:     "mcp",
		Short:   "Let an MCP client call the tools of the bus",
		GroupID: "use",
		Long: `Serves one MCP client over standard input and output: let the agent start it as an MCP server. It offers
the tools of the bus. Every call has one outcome by its deadline, can be repeated safely, and is recorded. It calls
as the actor of the credentials of the command line. It writes only messages to standard output.`,
		Example: `  toolbus mcp
  toolbus mcp --credentials ~/agent.token --server nats://bus:4222`,
	})
	o := mcp.Options{Version: cli.Version()}
	showFlags(cmd, &o)
	f := cmd.Flags()
	f.StringVar(&o.Role, "role-id", "", "role of calls, unless they name one (default the only one of the credentials)")
	f.StringVar(&o.Lane, "lane", "", "lane of calls, unless they name one")
	f.StringToStringVar(&o.Scope, "scope", nil,
		"scope keys of calls, unless they name some: `KEY=VALUE`, separated by commas")
	cmd.AddCommand(install(env), uninstall(env))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := check(&o); err != nil {
			return err
		}
		cli.Collect(env.Environ, leanPercent, cli.MemoryLimit)
		ctx, stop := context.WithCancel(cmd.Context())
		defer stop()
		agent := &agent{open: connect}
		defer agent.close()
		client, err := agent.connect(ctx)
		if err != nil {
			turnAway(ctx, stdin, env.Stdout, err)
			return err
		}
		if client == nil {
			fmt.Fprintln(env.Stderr, "toolbus mcp: no tools until a bus answers:", oneLine(agent.away.Error()))
		}
		o.Connect, o.Connected, o.Logger = agent.wait, agent.connected, warnings(env, &o)
		signal.Ignore(syscall.SIGPIPE) // if the client has gone, a write fails and its calls are cancelled
		door := mcp.New(context.WithoutCancel(ctx), client, o)
		defer door.Close()
		watched := make(chan struct{})
		go func() { defer close(watched); door.Watch(ctx) }()
		defer func() { stop(); <-watched }()
		return cli.Stopped(ctx, door.Serve(ctx, stdin, env.Stdout))
	}
	return cmd
}

// leanPercent is the GOGC of a process that runs once per agent. It has few calls, so it can collect garbage often.
const leanPercent = 50

// firstTime is the time during which requests of a rejected client are answered.
const firstTime = time.Second

// turnAway sends the client the reason why it is not served.
func turnAway(ctx context.Context, in io.Reader, out io.Writer, err error) {
	ctx, cancel := context.WithTimeout(ctx, firstTime)
	defer cancel()
	mcp.RejectClient(ctx, in, out, "toolbus: "+err.Error())
}
