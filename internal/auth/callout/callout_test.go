package callout_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// guarded is a server that asks who a new connection is.
type guarded struct {
	t    testing.TB
	keys *deployment.Keys
	url  string
	said *log

	mu     sync.Mutex
	tokens map[string]auth.Principal
}

// log is what the callout has said.
type log struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *log) has(s string) bool { return strings.Contains(l.text(), s) }

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// guard starts a server. It replaces pairs of texts in its configuration.
func guard(t testing.TB, replace ...string) *guarded {
	t.Helper()
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	text, err := deployment.Config("test", public, deployment.Shape{Server: "one", Listen: "127.0.0.1:-1",
		Store: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := natsserver.Start(natsserver.Options{Config: strings.NewReplacer(replace...).Replace(text)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	return &guarded{t: t, keys: keys, url: srv.URL(), said: &log{}, tokens: map[string]auth.Principal{}}
}

// principal returns one whose token is called by its family.
func (g *guarded) principal(role auth.Role, actor, family string) auth.Principal {
	p := auth.Principal{
		Tenant: "default", Actor: actor, Role: role, Family: family, Expires: time.Now().Add(time.Hour),
	}
	if role == auth.Executor {
		p.Pool = "default"
	}
	g.set(family, p)
	return p
}

func (g *guarded) set(token string, p auth.Principal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens[token] = p
}

func (g *guarded) remove(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.tokens, token)
}

var errUnknown = errors.New("a token that nobody knows")

func (g *guarded) check(token string, now time.Time) (*auth.Principal, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.tokens[token]
	switch {
	case !ok:
		return nil, errUnknown
	case now.After(p.Expires):
		return &p, fmt.Errorf("the token: %w", auth.ErrExpired)
	}
	return &p, nil
}

// as connects with a key of the server's file.
func (g *guarded) as(key nkeys.KeyPair) *nats.Conn {
	g.t.Helper()
	public, err := key.PublicKey()
	if err != nil {
		g.t.Fatal(err)
	}
	return g.connect(nats.Nkey(public, key.Sign))
}

// quiet keeps the client from saying on standard error what is looked for.
var quiet = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

func (g *guarded) connect(options ...nats.Option) *nats.Conn {
	g.t.Helper()
	nc, err := nats.Connect(g.url, append([]nats.Option{nats.NoReconnect(), quiet}, options...)...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	return nc
}

func (g *guarded) options() callout.Options {
	return callout.Options{
		Keys: g.keys, Check: g.check, Now: time.Now, Logger: slog.New(slog.NewTextHandler(g.said, nil)),
		Inputs: func(auth.Principal) auth.PermissionInputs { return auth.PermissionInputs{Tools: []string{"echo"}} },
	}
}

// callout answers over a connection of its own.
func (g *guarded) callout() (lose func()) {
	g.t.Helper()
	nc := g.as(g.keys.Callout)
	c, err := callout.Serve(nc, g.options())
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Stop)
	return nc.Close
}

// may reports whether the server lets a connection publish to a subject and hear another; "" asks nothing.
func (g *guarded) may(nc *nats.Conn, publish, hear string) error {
	g.t.Helper()
	before := nc.LastError()
	if publish != "" {
		if err := nc.Publish(publish, nil); err != nil {
			g.t.Fatal(err)
		}
	}
	if hear != "" {
		sub, err := nc.SubscribeSync(hear)
		if err != nil {
			g.t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		g.t.Fatal(err)
	}
	if err := nc.LastError(); !errors.Is(err, before) {
		return err
	}
	return nil
}

// Whoever shows a token may do what its role may, and nothing else.
func TestAdmitted(t *testing.T) {
	g := guard(t)
	g.callout()
	g.principal(auth.Agent, "agent://a", "fam-agent")
	g.principal(auth.Executor, "executor://x", "family-executor")
	agent := g.connect(nats.Token("fam-agent"))
	byPassword := g.connect(nats.UserInfo("x", "fam-agent"))
	executor := g.connect(nats.Token("family-executor"), nats.Name(auth.ConnectionName("family-e-1")))
	const a = "default.agent_3a_2f_2fa"
	for _, try := range []struct {
		nc            *nats.Conn
		publish, hear string
		ok            bool
	}{
		{agent, "tb.call." + a + ".echo", "tb.ans." + a + ".x", true},
		{byPassword, "tb.svc.why." + a, "tb.chunk." + a + ".>", true},
		{agent, "tb.call.default.agent_3a_2f_2fb.echo", "", false},
		{agent, "$KV.calls.echo.id.1.c.x", "", false},
		{agent, "", "tb.ans.>", false},
		{agent, "", "_INBOX.>", false},
		{executor, "$KV.calls.echo.id.1.c.family-e-1", "tb.ctl.kill.*", true},
		{executor, "$KV.calls.echo.id.1.x.o.family-e-1", "_INBOX.family-e-1.>", true},
		{executor, "$JS.API.CONSUMER.MSG.NEXT.KV_calls.exec_default_low", "", true},
		{executor, "$KV.calls.echo.id.1.c.family-e-2", "", false},
		{executor, "$KV.calls.other.id.1.c.family-e-1", "", false},
		{executor, "$JS.API.CONSUMER.MSG.NEXT.KV_calls.exec_other_low", "", false},
		{executor, "tb.call." + a + ".echo", "", false},
		{executor, "", "_INBOX.family-e-2.>", false},
	} {
		if err := g.may(try.nc, try.publish, try.hear); (err == nil) != try.ok {
			t.Errorf("publish %q, hear %q: %v", try.publish, try.hear, err)
		}
	}
}

// What is no good token is told nothing but that, and the log says why.
func TestRefused(t *testing.T) {
	g := guard(t)
	g.callout()
	expired := g.principal(auth.Agent, "agent://a", "old")
	expired.Expires = time.Now().Add(-time.Minute)
	g.set("old", expired)
	g.principal(auth.Executor, "executor://x", "family-executor")
	for name, options := range map[string][]nats.Option{
		"unknown":                  {nats.Token("nobody's")},
		"none":                     {nats.Name("x")},
		"expired":                  {nats.Token("old")},
		"an executor without name": {nats.Token("family-executor")},
		"another's instance":       {nats.Token("family-executor"), nats.Name("executor other-ex-1")},
		"an instance with a dot":   {nats.Token("family-executor"), nats.Name("executor family-e-1.>")},
		"too large to be decoded":  {nats.Token(strings.Repeat("x", 3<<10))},
	} {
		nc, err := nats.Connect(g.url, options...)
		if err == nil {
			nc.Close()
			t.Error("let in:", name)
			continue
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, why := range []string{errUnknown.Error(), "no token", "expired", "instance"} {
		if !g.said.has(why) {
			t.Errorf("the log does not say %q:\n%s", why, g.said)
		}
	}
}

// A client without room for its connection reads that, and not that its token is worth nothing, however many try at
// once. It is refused at once.
func TestRefusedForBounds(t *testing.T) {
	g := guard(t)
	g.principal(auth.Agent, "agent://a", "good")
	o := g.options()
	o.Admit = func(auth.Principal, string, string, uint64) error { return errors.New("too many connections") }
	c, err := callout.Serve(g.as(g.keys.Callout), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	errs := make(chan error)
	for range 40 {
		go func() {
			_, err := bus.Dial(g.url, "x", nats.Token("good"))
			errs <- err
		}()
	}
	for range 40 {
		if err := <-errs; !errors.Is(err, bus.ErrCrowded) || !bus.NotNow(err) || bus.Denied(err) ||
			!strings.Contains(bus.ConnectHint(err), "close") {
			t.Errorf("%v: %s", err, bus.ConnectHint(err))
		}
	}
	if _, err := bus.Dial(g.url, "x", nats.Token("unknown")); !bus.Denied(err) {
		t.Error(err)
	}
	if !g.said.has("too many connections") {
		t.Error(g.said.text())
	}
}

// An expired token that may be renewed is good for that alone.
func TestRenewalOnly(t *testing.T) {
	g := guard(t)
	g.callout()
	p := g.principal(auth.Executor, "agent://a", "old")
	p.Expires, p.RenewUntil = time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
	g.set("old", p)
	nc := g.connect(nats.Token("old"))
	for _, try := range []struct {
		publish, hear string
		ok            bool
	}{
		{"tb.svc.token_renew.default.agent_3a_2f_2fa", "tb.ans.default.agent_3a_2f_2fa.x", true},
		{"tb.svc.why.default.agent_3a_2f_2fa", "", false},
		{"tb.call.default.agent_3a_2f_2fa.echo", "", false},
		{"", "tb.chunk.default.agent_3a_2f_2fa.>", false},
	} {
		if err := g.may(nc, try.publish, try.hear); (err == nil) != try.ok {
			t.Errorf("publish %q, hear %q: %v", try.publish, try.hear, err)
		}
	}
}

// Many connect at once while one of two who answer is lost, and all are let in: whom the server has asked the lost one
// about tries again.
func TestOneOfTwoLost(t *testing.T) {
	g := guard(t)
	lose := g.callout()
	g.callout()
	g.principal(auth.Agent, "agent://a", "a")
	var all sync.WaitGroup
	for i := range 40 {
		if i == 10 {
			lose()
		}
		all.Go(func() {
			nc, err := bus.Dial(g.url, "one of many", nats.Token("a"))
			if err != nil {
				t.Error(err)
				return
			}
			nc.Close()
		})
		if i < 10 || i == 20 {
			all.Wait()
		}
	}
	all.Wait()
}

// A connection ends with its token.
func TestExpiry(t *testing.T) {
	g := guard(t)
	g.callout()
	p := g.principal(auth.Agent, "agent://a", "a")
	p.Expires = time.Now().Add(2 * time.Second)
	g.set("a", p)
	ended := make(chan struct{})
	g.connect(nats.Token("a"), nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("it is still there")
	}
}

// Connections of a family, and of an actor, are closed within a second, whichever account they are in, and no others.
func TestKick(t *testing.T) {
	g := guard(t)
	g.callout()
	kicker := callout.NewDisconnector(g.as(g.keys.System))
	closed := make(chan string, 10)
	connect := func(role auth.Role, actor, family string, options ...nats.Option) {
		g.principal(role, actor, family)
		g.connect(append(options, nats.Token(family), nats.ClosedHandler(func(*nats.Conn) { closed <- family }))...)
	}
	connect(auth.Agent, "agent://a", "one")
	connect(auth.Agent, "agent://a", "one-more")
	connect(auth.Agent, "agent://b", "other")
	connect(auth.Executor, "agent://a", "work", nats.Name("executor work-1"))
	watch := timertest.StartStallMeter()
	defer watch.End()
	started := time.Now()
	kick := func(by func() (int, error), want ...string) {
		t.Helper()
		if n, err := by(); n != len(want) || err != nil {
			t.Errorf("closed %d, %v, want %d", n, err, len(want))
		}
		for range want {
			if got := <-closed; !strings.Contains(strings.Join(want, " "), got) {
				t.Errorf("closed %s, want %s", got, want)
			}
		}
	}
	kick(func() (int, error) { return kicker.Kick(t.Context(), ofFamily("one")) }, "one")
	if took := time.Since(started); took > time.Second+watch.Late() {
		t.Errorf("it took %s", took)
	}
	kick(func() (int, error) { return kicker.Kick(t.Context(), ofFamily("one")) })
	kick(func() (int, error) { return kicker.Kick(t.Context(), ofAgentA) }, "one-more", "work")
	select {
	case name := <-closed:
		t.Errorf("closed %s", name)
	default:
	}
}

func ofFamily(family string) func(auth.User, time.Time) bool {
	return func(u auth.User, _ time.Time) bool { return u.Family == family }
}

// ofAgentA reports whether a user is agent://a of the tenant default, and not one of its sub-actors.
func ofAgentA(u auth.User, _ time.Time) bool {
	return u.Tenant == subjects.Token("default") && u.Actor == subjects.Token("agent://a")
}

// A revoked actor's next message fails within a second: its connection is closed, and it is not let in again.
func TestRevoked(t *testing.T) {
	g := guard(t)
	g.callout()
	kicker := callout.NewDisconnector(g.as(g.keys.System))
	g.principal(auth.Agent, "agent://a", "a")
	nc, err := nats.Connect(g.url, nats.Token("a"), quiet,
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	failed := nc.StatusChanged(nats.CLOSED)
	watch := timertest.StartStallMeter()
	defer watch.End()
	started := time.Now()
	g.remove("a")
	if _, err := kicker.Kick(t.Context(), ofFamily("a")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("tb.svc.why.default.agent_3a_2f_2fa", nil); err == nil {
		t.Error("a message was sent")
	}
	if took := time.Since(started); took > time.Second+watch.Late() {
		t.Errorf("it took %s", took)
	}
	<-failed // after it was turned away twice
}

// BenchmarkConnect measures a new connection that shows a token.
func BenchmarkConnect(b *testing.B) {
	g := guard(b)
	g.callout()
	g.principal(auth.Agent, "agent://a", "a")
	for b.Loop() {
		nc, err := nats.Connect(g.url, nats.Token("a"))
		if err != nil {
			b.Fatal(err)
		}
		nc.Close()
	}
}
