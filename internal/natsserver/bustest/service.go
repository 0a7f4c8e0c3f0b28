package bustest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Describing returns an endpoint that describes tools with one function, which takes and returns any object.
func Describing(tools ...string) rpc.Endpoint {
	return rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			schema := jsontext.Value(`{"type":"object"}`)
			d := envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli()}
			for _, id := range tools {
				d.Tools = append(d.Tools, envelope.ToolInfo{
					ToolID: id, Version: "1.0.0", TimeoutDefaultMS: 30_000,
					Functions: map[string]envelope.FunctionInfo{"run": {Request: schema, Response: schema}},
				})
			}
			return d, nil
		}}
}

// FreezeDispatchers subscribes to describe requests and never answers them.
func (b *Bus) FreezeDispatchers() {
	b.T.Helper()
	if _, err := b.NC.Subscribe(subjects.ServiceWildcard(subjects.OpDescribe), func(*nats.Msg) {}); err != nil {
		b.T.Fatal(err)
	}
	if err := b.NC.Flush(); err != nil {
		b.T.Fatal(err)
	}
}

// Restricted starts a server with two users. The operator has all permissions. The agent may publish calls and service
// requests, and subscribe to the given subjects.
func Restricted(t *testing.T, subscribe ...string) *natstest.Server {
	t.Helper()
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "operator", Password: "secret"},
			{Username: "agent", Password: "secret", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"tb.call.>", "tb.svc.>"}},
				Subscribe: &server.SubjectPermission{Allow: subscribe},
			}},
		}
	})
	operator := nats.UserInfo("operator", "secret")
	endpoints := []rpc.Endpoint{Describing("echo"), Stocked("d1", nil)}
	ctx, log := context.WithoutCancel(t.Context()), slog.New(slog.DiscardHandler)
	nc := srv.Connect(t, operator)
	svc, err := rpc.Serve(ctx, nc, log, "0.0.1", time.Now, endpoints)
	if err == nil {
		err = nc.Flush() // the server then has the subscriptions
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Stop() }) // fails if the server is already stopped
	return srv
}

// Stocked returns an endpoint that answers like a dispatcher that has loaded tools.
func Stocked(instance string, tools map[string]string) rpc.Endpoint {
	return Listing(envelope.Inventory{Instance: instance, Tools: tools})
}

// Listing returns an endpoint that answers like a dispatcher with these tools and settings.
func Listing(of envelope.Inventory) rpc.Endpoint {
	handle := func(context.Context, call.Sender, []byte) (any, *envelope.Error) { return of, nil }
	return rpc.Endpoint{Op: subjects.OpInventory, All: true, Handle: handle}
}

// Serve serves endpoints until the test ends.
func (b *Bus) Serve(endpoints ...rpc.Endpoint) {
	b.T.Helper()
	svc, err := rpc.Serve(context.WithoutCancel(b.T.Context()), b.NC, slog.New(slog.DiscardHandler), "0.0.1", time.Now,
		endpoints)
	if err != nil {
		b.T.Fatal(err)
	}
	if err := b.NC.Flush(); err != nil { // the clients use other connections
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() {
		if err := svc.Stop(); err != nil {
			b.T.Error(err)
		}
	})
}
