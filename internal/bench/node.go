package bench

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/bench/flood"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Roles of a child process, in addition to the kinds of floods.
const (
	Dispatcher = "dispatcher"
	Executor   = "executor"
)

// NodeOptions configures a child process.
type NodeOptions struct {
	Role        string // Dispatcher, Executor or a kind of flood
	URL         string
	Credentials string // token file of an executor or a flood; "" without tokens
	Keys        string // folder of the deployment's secrets, for a dispatcher; "" without tokens
	Tools       string // folder with manifests
	Slots       int
	Ready       func()
}

// Node runs a dispatcher, an executor or a flood. It is the main function of child processes.
func Node(ctx context.Context, o NodeOptions) error {
	if slices.Contains(flood.Kinds(), o.Role) {
		f := flood.Flood{
			Kind: o.Role, URL: o.URL, Credentials: o.Credentials, Tool: toolID(0), Fn: fnEcho, SlowFn: fnSlow,
			Input: input(256), Ready: o.Ready,
		}
		return f.Send(ctx)
	}
	r, err := tool.Load(o.Tools, app.Transports()...)
	if err != nil {
		return err
	}
	c, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	switch o.Role {
	case Dispatcher:
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			Tools: r, Version: toolbus.Version, Ready: o.Ready, OpenPerActor: math.MaxInt, OpenPerTenant: math.MaxInt,
			AllowAll: true,
		})
	case Executor:
		return app.RunExecutor(ctx, c, app.ExecutorOptions{
			Tools: r, Adapters: Adapters(), Slots: o.Slots, Ready: o.Ready,
		})
	}
	return fmt.Errorf("%q is neither %s nor %s", o.Role, Dispatcher, Executor)
}

func (o NodeOptions) connect(ctx context.Context) (c *app.Conn, err error) {
	options := app.Options{Options: link.Options{URL: o.URL}, Topology: topology(1)}
	if o.Keys != "" {
		if options.Keys, err = deployment.Load(o.Keys); err != nil {
			return nil, err
		}
	}
	if o.Credentials == "" {
		return app.Connect("bench-"+o.Role, options)
	}
	held, err := tokensource.Read(o.Credentials, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	options.Instance = auth.NewInstanceID(held.Principal())
	nc, err := link.DialHolding(ctx, auth.ConnectionName(options.Instance), options.Options, held)
	if err != nil {
		return nil, err
	}
	return app.Open(nc, options)
}

// node returns the arguments of the toolbus command that runs a role, with its credentials.
func (h *host) node(role string, more ...string) ([]string, error) {
	args := append([]string{"bench", "node", role, "--server", h.url}, more...)
	switch {
	case h.secrets == nil:
		return args, nil
	case role == Dispatcher:
		return append(args, "--secrets-dir", h.secrets.Secrets()), nil
	}
	p := auth.Principal{Actor: flood.Actor, Role: auth.Agent, Scopes: []string{auth.ScopeAll}}
	if role == Executor {
		p = auth.Principal{Actor: "executor://bench", Role: auth.Executor, Pool: tool.DefaultPool}
	}
	_, err := h.token(role, p)
	return append(args, "--credentials", h.secrets.Credentials(role)), err
}
