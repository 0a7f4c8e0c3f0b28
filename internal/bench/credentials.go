package bench

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// tokenLife is longer than any benchmark, so that no renewal is measured.
const tokenLife = 24 * time.Hour

// token returns a new token, or nil if the deployment has none.
func (h *host) token(name string, p auth.Principal) (*tokensource.Source, error) {
	if h.secrets == nil {
		return nil, nil
	}
	if err := h.secrets.Issue(name, client.DefaultTenant, p, tokenLife); err != nil {
		return nil, err
	}
	return tokensource.Read(h.secrets.Credentials(name), slog.New(slog.DiscardHandler))
}

// executor opens a connection for an executor.
func (h *host) executor(ctx context.Context) (*app.Conn, error) {
	held, err := h.token("executor", auth.Principal{
		Actor: "executor://bench", Role: auth.Executor, Pool: tool.DefaultPool,
	})
	if err != nil {
		return nil, err
	}
	o, name := app.Options{Options: link.Options{URL: h.url, Connect: h.connect}, Fsync: h.always}, "bench-executor"
	if held != nil {
		o.Instance = auth.NewInstanceID(held.Principal())
		name = auth.ConnectionName(o.Instance)
	}
	nc, err := link.DialHolding(ctx, name, o.Options, held)
	if err != nil {
		return nil, err
	}
	c, err := app.Open(nc, o)
	if err != nil {
		nc.Close()
	}
	return c, err
}

// owner returns the tenant and the actor of the calls.
func owner() subjects.Owner {
	return subjects.Owner{Tenant: client.DefaultTenant, Actor: client.DefaultActor}
}

// agent returns a new token of the actor that calls.
func (h *host) agent(name string) (*tokensource.Source, error) {
	return h.token(name, auth.Principal{
		Actor: owner().Actor, Role: auth.Agent, Scopes: []string{auth.ScopeAll},
	})
}

// caller opens a connection with the given name and returns a client that uses it.
func (h *host) caller(ctx context.Context, name string) (*client.Client, *nats.Conn, error) {
	held, err := h.agent(name)
	if err != nil {
		return nil, nil, err
	}
	owner := owner()
	nc, err := link.DialHolding(ctx, name, link.Options{URL: h.url, Connect: h.connect, Caller: owner}, held)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	o := client.Options{Tenant: owner.Tenant, Actor: owner.Actor, Payloads: link.OpenPayloads(js)}
	if held != nil {
		o.Token = held.Token
	}
	c, err := client.New(nc, o)
	if err != nil {
		nc.Close()
	}
	return c, nc, err
}

// watch opens a connection for the benchmark itself, with the rights of a dispatcher.
func (h *host) watch() (*nats.Conn, error) {
	of := h.secrets.Administrator(h.url)
	return bus.Dial(of.URL, "bench-watch", slices.Concat(of.How, h.connect,
		[]nats.Option{nats.CustomInboxPrefix(watchInbox)})...)
}
