package app

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tool"
)

// Over the walls of a deployment an operator issues and revokes, its holder renews, and what was revoked is refused.
func TestTokensOverTheWalls(t *testing.T) {
	keys, err := accounts.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	text, err := accounts.Config("test", public, accounts.Shape{
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
	c, err := Connect("dispatcher", Options{URL: srv.URL(), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- RunDispatcher(ctx, c, DispatcherOptions{
			Registry: tool.NewRegistry(), Version: "0.0.0", Ready: func() { close(ready) },
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	signer, err := keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	operator := identity.Principal{
		Tenant: "acme", Actor: "agent://op", Role: identity.Operator, ID: identity.NewID(), Family: identity.NewID(),
		Issued: now, Expires: now.Add(identity.Life),
	}
	token, err := signer.Mint(operator)
	if err != nil {
		t.Fatal(err)
	}
	inbox := func(actor, token string) *bus.Inbox {
		nc, err := nats.Connect(srv.URL(), nats.Token(token),
			nats.CustomInboxPrefix(subjects.Owner{Tenant: "acme", Actor: actor}.Inbox()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		in, err := bus.NewInbox(nc, "acme", actor)
		if err != nil {
			t.Fatal(err)
		}
		in.Token = func() string { return token }
		return in
	}
	ask := func(in *bus.Inbox, op string, q, a any, want envelope.Code) {
		t.Helper()
		refusal, err := in.Ask(t.Context(), op, q, a)
		got := envelope.Code("")
		if refusal != nil {
			got = refusal.Code
		}
		if err != nil || got != want {
			t.Fatalf("%s: %v %v, want %q", op, refusal, err, want)
		}
	}
	op := inbox("agent://op", token)
	var issued, renewed question.TokenAnswer
	ask(op, subjects.OpTokenIssue, question.Issue{Tenant: "acme", Actor: "agent://a", Role: "agent", RenewS: 60},
		&issued, "")
	agent := inbox("agent://a", issued.Token)
	ask(agent, subjects.OpTokenRenew, struct{}{}, &renewed, "")
	ask(agent, subjects.OpTokenList, question.TokenList{}, &question.Credentials{}, envelope.CodeForbidden)
	ask(op, subjects.OpTokenRevoke, question.Revoke{Family: issued.Family}, &question.RevokeAnswer{}, "")
	for end := time.Now().Add(time.Second); ; {
		refusal, err := agent.Ask(t.Context(), subjects.OpTokenRenew, struct{}{}, &renewed)
		if err == nil && refusal != nil && refusal.Code == envelope.CodeRevoked {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a second after it was revoked: %v %v", refusal, err)
		}
	}
}
