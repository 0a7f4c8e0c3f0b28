package blackbox

import (
	"sync/atomic"
	"testing"
	"time"

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
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An actor that an operator has revoked is let in no more, by its own connection, which is closed, and through a door,
// which goes on for others: from the first refusal on nothing that it asks for is admitted.
func TestRevokedActor(t *testing.T) {
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{busDeployment: deployOn(t, natstest.Start(t, walled(t, keys)), map[string]spec{
		"hi": {class: call.Pure, run: echo(new(atomic.Int64))},
	})}
	g.url, g.keys = g.srv.URL, keys
	g.dispatcher()
	g.keys = nil // dispatchers alone have them
	text, p := token(t, keys, auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: tool.DefaultPool})
	g.instance = auth.NewInstanceID(p)
	g.connect = []nats.Option{nats.Token(text), nats.Name(auth.ConnectionName(g.instance))}
	g.executor(6)

	own, bad := token(t, keys, auth.Principal{Actor: "agent://bad", Role: auth.Agent})
	good, other := token(t, keys, auth.Principal{Actor: "agent://good", Role: auth.Agent})
	boss, operator := token(t, keys, auth.Principal{Actor: "operator", Role: auth.Operator})
	way, door := token(t, keys, auth.Principal{Actor: "door", Role: auth.Gateway})
	nc := dialAs(t, g.srv.URL, own, bad)
	through := dialAs(t, g.srv.URL, way, door)
	client, spoken := speak(t, nc, own, bad), speak(t, through, own, bad)
	for _, c := range []*clientlib.Client{client, spoken} {
		if r := hi(t, c); r.Status != envelope.Success {
			t.Fatalf("before: %+v", r)
		}
	}
	lost := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED)
	var answer envelope.RevokeResponse
	inbox, err := rpc.NewInbox(dialAs(t, g.srv.URL, boss, operator), operator.Tenant, operator.Actor)
	if err != nil {
		t.Fatal(err)
	}
	inbox.Token = func() string { return boss }
	refusal, err := inbox.Ask(t.Context(), subjects.OpTokenRevoke,
		envelope.RevokeRequest{Tenant: bad.Tenant, Actor: bad.Actor}, &answer)
	if refusal != nil || err != nil {
		t.Fatal(refusal, err)
	}
	for hi(t, spoken).Status == envelope.Success { // until dispatchers have heard of it
	}
	for range 20 {
		if r := hi(t, spoken); r.Status == envelope.Success || r.Error == nil || !r.Provenance.Final {
			t.Errorf("after the first refusal: %+v", r)
		}
	}
	<-lost
	if r := hi(t, speak(t, through, good, other)); r.Status != envelope.Success {
		t.Errorf("another one, through the same door: %+v", r)
	}
	if _, err := nats.Connect(g.srv.URL, nats.Token(own)); err == nil {
		t.Error("it is let in again")
	}
}

func hi(t *testing.T, c *clientlib.Client) *envelope.Response {
	t.Helper()
	r, err := c.Call(t.Context(), clientlib.Call{Tool: "hi", Input: []byte(`{}`), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dialAs connects with the token of p.
func dialAs(t *testing.T, url, token string, p auth.Principal) *nats.Conn {
	t.Helper()
	inbox := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox()
	nc, err := bus.Dial(url, "test", nats.Token(token), nats.CustomInboxPrefix(inbox))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// speak is a caller whose messages carry the token of p.
func speak(t *testing.T, nc *nats.Conn, token string, p auth.Principal) *clientlib.Client {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientlib.New(nc, clientlib.Options{
		Tenant: p.Tenant, Actor: p.Actor, Payloads: link.OpenPayloads(js), Token: func() string { return token },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
