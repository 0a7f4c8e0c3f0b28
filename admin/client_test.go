package admin_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// onStage runs a stage until the test ends.
func onStage(t *testing.T) *stage {
	t.Helper()
	return onStageWith(t, toolbus.DispatcherOptions{AllowAll: true})
}

// onStageWith is onStage with options of the dispatcher.
func onStageWith(t *testing.T, o toolbus.DispatcherOptions) *stage {
	t.Helper()
	s, err := newStage(t.TempDir(), o)
	t.Cleanup(s.stop)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// admin returns a client with the token of a file.
func (s *stage) admin(t *testing.T, file string) *admin.Client {
	t.Helper()
	c, err := admin.Connect(t.Context(), s.url, admin.Options{Name: t.Name(), CredentialsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// agent returns a client of an agent with a token.
func (s *stage) agent(t *testing.T, name, token string) *toolbus.Client {
	t.Helper()
	file, err := s.keep(name, token)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.client(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func greets(t *testing.T, c *toolbus.Client) error {
	_, err := toolbus.Invoke[string](t.Context(), c, toolbus.Call{Tool: "greet", Retry: once()}, "Ada")
	return err
}

func once() *toolbus.RetryPolicy { return &toolbus.RetryPolicy{MaxAttempts: 1} }

// eventually repeats a look until it succeeds, for ten seconds.
func eventually(t *testing.T, what string, look func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !look() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within ten seconds: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A token that an operator issues is good for calls, is listed, and ends when it is revoked.
func TestTokenIsIssuedListedAndRevoked(t *testing.T) {
	s := onStage(t)
	operator := s.admin(t, s.operator)
	token, err := operator.IssueToken(t.Context(), admin.IssueRequest{
		Tenant: toolbus.DefaultTenant, Actor: "agent://bob", Role: "agent", LifeS: 600,
	})
	if err != nil {
		t.Fatal(err)
	}
	bob := s.agent(t, "bob", token.Token)
	if err := greets(t, bob); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[admin.CredentialFilter]int{
		{Tenant: toolbus.DefaultTenant, Actor: "agent://bob"}: 1, {Actor: "agent://bob"}: 1, {}: 1,
		{Actor: "agent://eve"}: 0, {Tenant: "acme"}: 0,
	} {
		listed := 0
		for c, err := range operator.Credentials(t.Context(), filter) {
			if err != nil || c.Family != token.Family || c.Role != "agent" || c.Revoked {
				t.Errorf("%+v: %+v, %v", filter, c, err)
			}
			listed++
		}
		if listed != want {
			t.Errorf("%+v: %d credentials", filter, listed)
		}
	}
	if revoked, err := operator.RevokeTokens(t.Context(), admin.RevokeRequest{Family: token.Family}); err != nil ||
		revoked.Families != 1 {
		t.Errorf("%+v, %v", revoked, err)
	}
	eventually(t, "calls with the revoked token are refused", func() bool {
		return toolbus.CodeOf(greets(t, bob)) == envelope.CodeRevoked
	})
	for c, err := range operator.Credentials(t.Context(), admin.CredentialFilter{Actor: "agent://bob"}) {
		if err != nil || !c.Revoked {
			t.Errorf("after it was revoked: %+v, %v", c, err)
		}
	}
}

// What an operator asks for and cannot have is an Error.
func TestOperatorIsRefused(t *testing.T) {
	s := onStage(t)
	operator := s.admin(t, s.operator)
	_, err := operator.IssueToken(t.Context(), admin.IssueRequest{Tenant: "default", Actor: "agent://a", Role: "king"})
	refusal(t, "a role that does not exist", err, envelope.CodeMalformed)
	_, err = operator.RetryDeadLetter(t.Context(), 7, "")
	refusal(t, "a letter that does not exist", err, envelope.CodeNotFound)
	_, err = operator.RevokeTokens(t.Context(), admin.RevokeRequest{})
	refusal(t, "revoke without a name", err, envelope.CodeMalformed)
	if revoked, err := operator.RevokeTokens(t.Context(), admin.RevokeRequest{Family: "0123456789ab"}); err != nil ||
		revoked.Families != 0 {
		t.Errorf("%+v, %v", revoked, err)
	}
}

func refusal(t *testing.T, what string, err error, code envelope.Code) {
	t.Helper()
	refused, ok := errors.AsType[*toolbus.Error](err)
	if !ok || refused.Code() != code || refused.Fix() == "" || refused.Status() != "" {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// An agent makes none of the calls of operators, and the code says that its role forbids it.
func TestAgentIsRefused(t *testing.T) {
	s := onStage(t)
	file, err := s.credentials("bob", auth.Principal{Actor: "agent://bob", Role: auth.Agent})
	if err != nil {
		t.Fatal(err)
	}
	agent, ctx := s.admin(t, file), t.Context()
	for what, ask := range map[string]func() error{
		"issue":   func() error { _, err := agent.IssueToken(ctx, admin.IssueRequest{}); return err },
		"revoke":  func() error { _, err := agent.RevokeTokens(ctx, admin.RevokeRequest{Family: "x"}); return err },
		"rotate":  func() error { _, err := agent.RotateKeys(ctx, false); return err },
		"list":    func() error { return last(agent.Credentials(ctx, admin.CredentialFilter{})) },
		"letters": func() error { _, err := agent.DeadLetters(ctx); return err },
		"retry":   func() error { _, err := agent.RetryDeadLetter(ctx, 1, ""); return err },
		"records": func() error { return last(agent.AuditRecords(ctx, admin.AuditFilter{})) },
	} {
		refusal(t, what, ask(), envelope.CodeForbidden)
	}
}

// last returns the error of the last element.
func last[E any](all iter.Seq2[E, error]) (err error) {
	for _, one := range all {
		err = one
	}
	return err
}

// Nobody connects with a token that the deployment does not accept.
func TestConnectRefuses(t *testing.T) {
	s := onStage(t)
	file, err := s.credentials("old", auth.Principal{Actor: "operator://old", Role: auth.Operator})
	if err != nil {
		t.Fatal(err)
	}
	operator := s.admin(t, s.operator)
	if _, err := operator.RevokeTokens(t.Context(), admin.RevokeRequest{
		Tenant: toolbus.DefaultTenant, Actor: "operator://old",
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a revoked operator is refused", func() bool { // a dispatcher knows of a revocation within 1 s
		c, err := admin.Connect(t.Context(), s.url, admin.Options{CredentialsFile: file})
		if err == nil {
			_ = c.Close() // before the revocation came
			return false
		}
		refusal(t, "a revoked operator", err, envelope.CodeRevoked)
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := admin.Connect(ctx, "nats://127.0.0.1:1", admin.Options{}); err == nil {
		_ = c.Close()
		t.Error("connected to no server")
	}
}

// A new key leaves the tokens of the former ones good. If those are distrusted, none of them is, and the operator who
// asked gets a new token.
func TestRotateKeys(t *testing.T) {
	s := onStage(t)
	operator := s.admin(t, s.operator)
	old, err := s.credentials("bob", auth.Principal{Actor: "agent://bob", Role: auth.Agent})
	if err != nil {
		t.Fatal(err)
	}
	first, err := operator.RotateKeys(t.Context(), false)
	if err != nil || first.KeyID == "" || first.Token != "" || !first.Until.After(first.Since) {
		t.Fatalf("%+v, %v", first, err)
	}
	bob, err := s.client(old)
	if err != nil {
		t.Fatal(err)
	}
	defer bob.Close()
	if err := greets(t, bob); err != nil {
		t.Errorf("a token of the former key: %v", err)
	}
	second, err := operator.RotateKeys(t.Context(), true)
	if err != nil || second.KeyID == first.KeyID || second.Token == "" {
		t.Fatalf("%+v, %v", second, err)
	}
	eventually(t, "calls with a distrusted token are refused", func() bool {
		code := toolbus.CodeOf(greets(t, bob))
		return code.Class() == envelope.ClassAuth
	})
	file, err := s.keep("again", second.Token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.admin(t, file).DeadLetters(t.Context()); err != nil {
		t.Errorf("the new token of the operator: %v", err)
	}
}
