package blackbox

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// walled makes a server one of a deployment with these keys, with the configuration that is written for it.
func walled(t *testing.T, keys *deployment.Keys) natstest.Option {
	t.Helper()
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	return func(o *server.Options) {
		text, err := deployment.Config(keys.Deployment, public, deployment.Shape{
			Server: o.ServerName, Listen: "127.0.0.1:-1", Store: o.StoreDir, MaxStore: o.JetStreamMaxStore,
		})
		if err != nil {
			t.Fatal(err)
		}
		of := server.Options{NoSigs: true, DisableJetStreamBanner: true}
		if err := of.ProcessConfigString(text); err != nil {
			t.Fatal(err)
		}
		of.Host, of.Port = o.Host, o.Port
		*o = of
	}
}

// token mints one for an hour.
func token(t *testing.T, keys *deployment.Keys, p auth.Principal) (string, auth.Principal) {
	t.Helper()
	signer, err := keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	p.Tenant, p.ID, p.Family = "default", auth.NewID(), auth.NewID()
	p.Issued, p.Expires = time.Now(), time.Now().Add(time.Hour)
	text, err := signer.Mint(p)
	if err != nil {
		t.Fatal(err)
	}
	return text, p
}

// Each in its account and with its role's permissions alone, everything works: calls, chunks while a tool runs,
// questions, cancels, large inputs and outputs; and nothing that is done is refused by the server.
func TestAccounts(t *testing.T) {
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	started, stopped := make(chan struct{}), make(chan struct{})
	g := &guarded{busDeployment: deployOn(t, natstest.Start(t, walled(t, keys)), map[string]spec{
		"pay": {class: call.SideEffectful, run: echo(new(atomic.Int64))},
		"count": {class: call.Pure, streaming: true,
			run: func(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
				return tool.Result{Output: inv.Input}, errors.Join(s.Emit(ctx, envelope.ChunkData, []byte("1")),
					s.Emit(ctx, envelope.ChunkData, []byte("2")))
			}},
		"sleep": {class: call.SideEffectful, run: func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result,
			error) {
			close(started)
			<-ctx.Done()
			close(stopped)
			return tool.Result{}, ctx.Err()
		}},
	})}
	g.url, g.keys = g.srv.URL, keys
	g.watch(g.dispatcher().conn.NC)
	g.keys = nil // dispatchers alone have them

	text, p := token(t, keys, auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: tool.DefaultPool})
	g.instance = auth.NewInstanceID(p)
	g.connect = []nats.Option{nats.Token(text), nats.Name(auth.ConnectionName(g.instance))}
	g.watch(g.executor(6).conn.NC)

	c := g.caller(keys, "agent://a")
	large := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), 600<<10)...), `"}`...)
	for _, call := range []clientlib.Call{
		{Tool: "pay", Input: []byte(`{}`)},
		{Tool: "pay", Input: large},
	} {
		if r, err := c.Call(t.Context(), call); err != nil || r.Status != envelope.Success ||
			!bytes.Equal(r.Output, call.Input) {
			t.Fatalf("%s: %.300v, %v", call.Tool, r, err)
		}
	}
	live := make(chan string, 10)
	if r, err := c.Call(t.Context(), clientlib.Call{Tool: "count", Input: []byte(`{}`),
		OnChunk: func(k envelope.Chunk) error { live <- string(k.Data); return nil }}); err != nil ||
		r.Status != envelope.Success || <-live != "1" || <-live != "2" {
		t.Fatalf("count: %v, %v", r, err)
	}
	accepted := make(chan envelope.Accepted, 1)
	go func() { // its answer is looked for below
		_, _ = c.Call(context.WithoutCancel(t.Context()),
			clientlib.Call{Tool: "sleep", Input: []byte(`{}`), OnAccepted: func(a envelope.Accepted) { accepted <- a }})
	}()
	a := <-accepted
	q := envelope.CallRef{Ref: a.Ref, CallID: a.CallID}
	<-started
	if told, err := c.Cancel(t.Context(), q); err != nil || told.Phase != "running" {
		t.Errorf("cancel: %+v, %v", told, err)
	}
	<-stopped
	if _, err := c.Why(t.Context(), q); err != nil {
		t.Error(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.refused) > 0 {
		t.Errorf("the server refused: %v", g.refused)
	}
}

// caller is a client in the account of callers.
func (g *guarded) caller(keys *deployment.Keys, actor string) *clientlib.Client {
	g.t.Helper()
	text, p := token(g.t, keys, auth.Principal{Actor: actor, Role: auth.Agent})
	owner := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.On("default")
	nc, err := bus.Dial(g.srv.URL, "agent", nats.Token(text), nats.CustomInboxPrefix(owner.Inbox()))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	g.watch(nc)
	js, err := jetstream.New(nc)
	if err != nil {
		g.t.Fatal(err)
	}
	c, err := clientlib.New(nc, clientlib.Options{
		Actor: actor, Payloads: link.OpenPayloads(js), Token: func() string { return text },
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}
