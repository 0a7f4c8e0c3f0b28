package blackbox

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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

// fortress is a bus with accounts, a dispatcher, and a tool "hi".
func fortress(t *testing.T) (g *guarded, keys *deployment.Keys) {
	t.Helper()
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	g = &guarded{busDeployment: deployOn(t, natstest.Start(t, walled(t, keys)), map[string]spec{
		"hi": {class: call.Pure, run: echo(new(atomic.Int64))},
	})}
	g.url, g.keys = g.srv.URL, keys
	g.dispatcher()
	g.keys = nil // dispatchers alone have them
	return g, keys
}

// hands runs an executor.
func (g *guarded) hands(keys *deployment.Keys) {
	g.t.Helper()
	text, p := token(g.t, keys, auth.Principal{
		Actor: "executor://x", Role: auth.Executor, Pool: tool.DefaultPool,
	})
	g.instance = auth.NewInstanceID(p)
	g.connect = []nats.Option{nats.Token(text), nats.Name(auth.ConnectionName(g.instance))}
	g.executor(6)
}

// lasting mints a token of an actor for a time from a moment on, which may be renewed for an hour.
func lasting(t *testing.T, keys *deployment.Keys, p auth.Principal, from time.Time, life time.Duration) string {
	t.Helper()
	signer, err := keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	p.Tenant, p.ID, p.Family = "default", auth.NewID(), auth.NewID()
	p.Issued = from.Truncate(time.Second)
	p.Expires, p.RenewUntil = p.Issued.Add(life), p.Issued.Add(time.Hour)
	text, err := signer.Mint(p)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A connection that was made with an expired token can do nothing but renew it. A call over it waits for that, and is
// sent when there is another connection; where there is none by its deadline it may be made again: nothing was done.
func TestCallWaitsForTheRenewal(t *testing.T) {
	g, keys := fortress(t)
	g.hands(keys)
	alice := auth.Principal{Actor: "agent://a", Role: auth.Agent}
	expired := lasting(t, keys, alice, time.Now().Add(-time.Minute), 10*time.Second)
	fresh, _ := token(t, keys, alice)
	var shown atomic.Pointer[string]
	shown.Store(&expired)
	inbox := subjects.Owner{Tenant: "default", Actor: alice.Actor}.Inbox()
	nc, err := bus.Dial(g.srv.URL, "agent", nats.CustomInboxPrefix(inbox),
		nats.TokenHandler(func() string { return *shown.Load() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client := func() *clientlib.Client {
		c, err := clientlib.New(nc, clientlib.Options{
			Actor: alice.Actor, Token: func() string { return *shown.Load() },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	r, err := client().Call(t.Context(), clientlib.Call{Tool: "hi", Input: []byte(`{}`), Timeout: time.Second})
	if err != nil || r.Status != envelope.RetryableError || r.Error.Code != envelope.CodeExpired ||
		r.Error.Details.RetryAfterMS == 0 || r.Error.Details.Effect != envelope.EffectNone || r.Provenance.Final {
		t.Fatalf("not renewed: %+v %+v, %v", r, r.Error, err)
	}
	answers := make(chan *envelope.Response, 1)
	c := client()
	go func() {
		r, _ := c.Call(t.Context(), clientlib.Call{Tool: "hi", Input: []byte(`{}`), Timeout: 20 * time.Second})
		answers <- r
	}()
	<-time.After(time.Second) // it was refused meanwhile
	shown.Store(&fresh)
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	if r := <-answers; r == nil || r.Status != envelope.Success {
		t.Errorf("renewed: %+v", r)
	}
}

// Whoever renews its token in time is never put out: its connection is made anew before the server ends it, which no
// call notices.
func TestConnectionOutlivesItsToken(t *testing.T) {
	t.Parallel()
	g, keys := fortress(t)
	g.hands(keys)
	file := filepath.Join(t.TempDir(), "token")
	const life = 7 * time.Second // a third of which is enough for another connection
	text := lasting(t, keys, auth.Principal{Actor: "agent://a", Role: auth.Agent}, time.Now(), life)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 100)
	conn, err := link.Establish(t.Context(), link.Options{URL: g.srv.URL, Credentials: file, Connect: []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // it was not ours to end
				lost <- err
			}
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := conn.Client(clientlib.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hi(t, c) // which asks what it is
	longest := time.Duration(0)
	for began := time.Now(); time.Since(began) < life+2*time.Second; {
		sent := time.Now()
		if r := hi(t, c); r.Status != envelope.Success {
			t.Fatalf("%+v", r)
		}
		longest = max(longest, time.Since(sent))
	}
	t.Logf("the longest call took %s, over %d connections", longest, conn.NC.Stats().Reconnects+1)
	if n := conn.NC.Stats().Reconnects; n < 1 {
		t.Errorf("%d connections", n+1)
	}
	select {
	case err := <-lost:
		t.Error("a connection was lost:", err)
	default:
	}
}
