package app

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// walls is a deployment with a dispatcher, and an operator of the tenant acme in it.
type walls struct {
	t    *testing.T
	url  string
	keys *deployment.Keys
	stop func() // stops the first dispatcher
	*rpc.Inbox
}

func newWalls(t *testing.T) *walls {
	t.Helper()
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	text, err := deployment.Config("test", public, deployment.Shape{
		Server: "one", Listen: "127.0.0.1:-1", Store: t.TempDir(), MaxStore: 1 << 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := natsserver.Start(natsserver.Options{Config: text})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	w := &walls{t: t, url: srv.URL(), keys: keys}
	w.stop = w.dispatch()
	signer, err := keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	token, err := signer.Mint(auth.Principal{
		Tenant: "acme", Actor: "agent://op", Role: auth.Operator, ID: auth.NewID(), Family: auth.NewID(),
		Issued: now, Expires: now.Add(auth.Life),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Inbox, _ = w.connect("agent://op", token)
	return w
}

// dispatch runs a dispatcher until stop is called or the test ends.
func (w *walls) dispatch() (stop func()) {
	w.t.Helper()
	c, err := Connect("dispatcher", Options{Options: link.Options{URL: w.url}, Keys: w.keys})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	ctx, cancel := context.WithCancel(w.t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- RunDispatcher(ctx, c, DispatcherOptions{
			AllowAll: true, Tools: tool.NewSet(), Version: "0.0.0", Ready: func() { close(ready) },
		})
		close(done)
	}()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-done:
		w.t.Fatal(err)
	}
	return stop
}

func (w *walls) connect(actor, token string) (*rpc.Inbox, *nats.Conn) {
	w.t.Helper()
	nc, err := nats.Connect(w.url, nats.Token(token), nats.ReconnectBufSize(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.CustomInboxPrefix(subjects.Owner{Tenant: "acme", Actor: actor}.Inbox()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	in, err := rpc.NewInbox(nc, "acme", actor)
	if err != nil {
		w.t.Fatal(err)
	}
	in.Token = func() string { return token }
	return in, nc
}

func (w *walls) ask(in *rpc.Inbox, op string, q, a any, want envelope.Code) {
	w.t.Helper()
	refusal, err := in.Ask(w.t.Context(), op, q, a)
	got := envelope.Code("")
	if refusal != nil {
		got = refusal.Code
	}
	if err != nil || got != want {
		w.t.Fatalf("%s: %v %v, want %q", op, refusal, err, want)
	}
}

// issue issues a token for an actor of the tenant and returns it.
func (w *walls) issue(actor string) (a envelope.TokenResponse) {
	w.t.Helper()
	w.ask(w.Inbox, subjects.OpTokenIssue, envelope.IssueRequest{Tenant: "acme", Actor: actor, Role: "agent",
		RenewS: 60}, &a, "")
	return a
}

// In a deployment an operator issues a token, and its holder renews it. The holder may not do the operations of
// operators.
func TestTokensOverTheWalls(t *testing.T) {
	w := newWalls(t)
	issued := w.issue("agent://a")
	agent, _ := w.connect("agent://a", issued.Token)
	var renewed envelope.TokenResponse
	w.ask(agent, subjects.OpTokenRenew, struct{}{}, &renewed, "")
	w.ask(agent, subjects.OpTokenList, envelope.CredentialsRequest{}, &envelope.CredentialsResponse{},
		envelope.CodeForbidden)
	if renewed.Family != issued.Family || renewed.Token == issued.Token {
		t.Errorf("%+v", renewed)
	}
}

// After a token is revoked, by family or by actor, its connection and those of tokens narrowed from it are closed
// within a second, and cannot reconnect. Other connections stay open.
func TestRevokedAreOut(t *testing.T) {
	w := newWalls(t)
	_, stays := w.connect("agent://b", w.issue("agent://b").Token)
	kept := stays.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	for name, revoke := range map[string]func(family string) envelope.RevokeRequest{
		"family": func(family string) envelope.RevokeRequest { return envelope.RevokeRequest{Family: family} },
		"actor":  func(string) envelope.RevokeRequest { return envelope.RevokeRequest{Tenant: "acme", Actor: "agent://a"} },
	} {
		issued := w.issue("agent://a")
		agent, nc := w.connect("agent://a", issued.Token)
		var narrowed envelope.TokenResponse
		w.ask(agent, subjects.OpTokenNarrow, envelope.NarrowRequest{Actor: "agent://a/part"}, &narrowed, "")
		_, child := w.connect("agent://a/part", narrowed.Token)
		closed, childClosed := nc.StatusChanged(nats.CLOSED), child.StatusChanged(nats.CLOSED)
		out := nc.StatusChanged(nats.RECONNECTING)
		watch, revoked := timertest.StartStallMeter(), time.Now()
		w.ask(w.Inbox, subjects.OpTokenRevoke, revoke(issued.Family), &envelope.RevokeResponse{}, "")
		<-out
		_, err := agent.Ask(t.Context(), subjects.OpTokenRenew, struct{}{}, &narrowed)
		if took := time.Since(revoked); err == nil || took > time.Second+watch.Late() {
			t.Errorf("%s: %v after %s", name, err, took)
		}
		watch.End()
		<-closed // closed after two refused attempts to reconnect
		<-childClosed
	}
	select {
	case s := <-kept:
		t.Errorf("another's connection is %s", s)
	default:
	}
}

// After the keys are distrusted, the connections of their tokens are closed within a second, also those that a
// dispatcher has accepted that runs no more. The operator who asks gets the answer before.
func TestDistrustedAreOut(t *testing.T) {
	w := newWalls(t)
	_, former := w.connect("agent://a", w.issue("agent://a").Token)
	w.dispatch()
	w.stop()
	_, nc := w.connect("agent://b", w.issue("agent://b").Token)
	var ended []chan nats.Status
	for _, of := range []*nats.Conn{former, nc} {
		ended = append(ended, of.StatusChanged(nats.RECONNECTING))
	}
	operator := w.NC.StatusChanged(nats.RECONNECTING)
	watch, asked := timertest.StartStallMeter(), time.Now()
	defer watch.End()
	var a envelope.RotateResponse
	w.ask(w.Inbox, subjects.OpKeyRotate, envelope.RotateRequest{Distrust: true}, &a, "")
	for _, out := range ended {
		<-out
	}
	if took := time.Since(asked); took > time.Second+watch.Late() {
		t.Errorf("closed after %s", took)
	}
	<-operator
	w.connect("agent://op", a.Token)
}

// A dispatcher that is asked to kill has the lock that another dispatcher has just set.
func TestKillAtAnotherDispatcher(t *testing.T) {
	w := newWalls(t)
	w.dispatch()
	all := envelope.LockTarget{All: true}
	for range 20 { // each request goes to one of the two
		var a envelope.LocksResponse
		w.ask(w.Inbox, subjects.OpLock, envelope.LockRequest{LockTarget: all, Reason: "INC-7"}, &a, "")
		w.ask(w.Inbox, subjects.OpLockKill, envelope.LockKillRequest{LockTarget: all}, &envelope.LockKillResponse{}, "")
		w.ask(w.Inbox, subjects.OpUnlock, envelope.LockRequest{LockTarget: all, Reason: "INC-7"}, &a, "")
	}
	w.ask(w.Inbox, subjects.OpLockKill, envelope.LockKillRequest{LockTarget: all}, &envelope.LockKillResponse{},
		envelope.CodeNotFound)
}
