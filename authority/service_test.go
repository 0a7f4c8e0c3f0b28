package authority_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/authority"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/question"
)

// counter is a service, and what it has put on record.
type counter struct {
	*offices
	authority.Service
	records  []audit.Record
	operator identity.Principal
	full     error
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{offices: newOffices(t)}
	c.Store, c.Record = c.store(), func(_ context.Context, r audit.Record) error {
		c.records = append(c.records, r)
		return c.full
	}
	c.operator = c.person("agent://op")
	c.operator.Role = identity.Operator
	return c
}

// is complains unless a question was refused with a code, or with "" answered.
func (c *counter) is(what string, refusal *envelope.Error, want envelope.Code) {
	c.T.Helper()
	if got := code(refusal); got != want {
		c.T.Errorf("%s: %s, want %q: %v", what, got, want, refusal)
	}
}

func code(e *envelope.Error) envelope.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

// A credential's life: issued, listed, renewed, narrowed, revoked; all of it is on record, without any token.
func TestServiceOfTokens(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	issued, refusal := c.Issue(ctx, &c.operator, question.Issue{
		Tenant: "acme", Actor: "agent://a", Role: "agent", Scopes: []string{"pay", "read"}, RenewS: 3600,
	})
	c.is("issue", refusal, "")
	p, err := c.Store.Checker().Check(issued.Token, c.now)
	if err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(identity.Life)
	late := authority.Service{Store: c.store(), Record: c.Record}
	expired, err := late.Store.Checker().Check(issued.Token, c.now)
	if !errors.Is(err, identity.ErrExpired) {
		t.Fatal(err)
	}
	renewed, refusal := late.Renew(ctx, expired)
	c.is("renew", refusal, "")
	if renewed.Family != p.Family || !renewed.Expires.After(c.now) {
		t.Errorf("%+v", renewed)
	}
	narrowed, refusal := late.Narrow(ctx, expired, question.Narrow{Scopes: []string{"read"}, Actor: "agent://a/sub"})
	c.is("narrow", refusal, "")
	_, refusal = late.Narrow(ctx, expired, question.Narrow{Scopes: []string{"admin"}})
	c.is("widen", refusal, envelope.CodeForbidden)
	list, refusal := late.List(ctx, &c.operator, question.TokenList{Tenant: "acme"})
	c.is("list", refusal, "")
	if len(list.Credentials) != 1 || list.Credentials[0].Family != p.Family || list.More {
		t.Errorf("%+v", list)
	}
	_, refusal = late.Revoke(ctx, &c.operator, question.Revoke{Family: p.Family})
	c.is("revoke", refusal, "")
	c.hears(late.Store, renewed.Token, identity.ErrRevoked)
	c.hears(late.Store, narrowed.Token, identity.ErrRevoked)
	_, refusal = late.Rotate(ctx, &c.operator, question.Rotate{})
	c.is("rotate", refusal, "")
	var events []audit.Event
	for _, r := range c.records {
		events = append(events, r.Event)
	}
	want := []audit.Event{audit.CredentialIssued, audit.CredentialRenewed, audit.CredentialNarrowed,
		audit.CredentialsListed, audit.CredentialRevoked, audit.KeyRotated}
	if !slices.Equal(events, want) {
		t.Errorf("on record: %v", events)
	}
}

// Nobody but operators issues, lists, revokes and rotates.
func TestServiceIsForOperators(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	agent := c.person("agent://a")
	for _, by := range []*identity.Principal{nil, &agent} {
		_, refusal := c.Issue(ctx, by, question.Issue{})
		c.is("issue", refusal, envelope.CodeForbidden)
		_, refusal = c.Revoke(ctx, by, question.Revoke{})
		c.is("revoke", refusal, envelope.CodeForbidden)
		_, refusal = c.List(ctx, by, question.TokenList{})
		c.is("list", refusal, envelope.CodeForbidden)
		_, refusal = c.Rotate(ctx, by, question.Rotate{})
		c.is("rotate", refusal, envelope.CodeForbidden)
	}
	if len(c.records) > 0 {
		t.Errorf("%+v", c.records)
	}
}

// What cannot be asked is refused, and what cannot be put on record is not done.
func TestServiceRefuses(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	good := question.Issue{Tenant: "acme", Actor: "agent://a", Role: "agent"}
	for name, spoil := range map[string]func(*question.Issue){
		"role": func(q *question.Issue) { q.Role = "king" }, "life": func(q *question.Issue) { q.LifeS = 901 },
		"past":  func(q *question.Issue) { q.LifeS = -1 },
		"renew": func(q *question.Issue) { q.RenewS = int64(authority.MaxRenewal/time.Second) + 1 },
	} {
		q := good
		spoil(&q)
		_, refusal := c.Issue(ctx, &c.operator, q)
		c.is(name, refusal, envelope.CodeMalformed)
	}
	for name, q := range map[string]question.Revoke{
		"nothing": {}, "both": {Family: "f", Tenant: "t", Actor: "a"}, "a wildcard": {Family: "*"}, "half": {Tenant: "t"},
	} {
		_, refusal := c.Revoke(ctx, &c.operator, q)
		c.is(name, refusal, envelope.CodeMalformed)
	}
	unrenewable := c.person("agent://a")
	unrenewable.RenewUntil = time.Time{}
	_, refusal := c.Renew(ctx, &unrenewable)
	c.is("renew", refusal, envelope.CodeForbidden)
	c.full = errors.New("full")
	_, refusal = c.Issue(ctx, &c.operator, good)
	c.is("without a record", refusal, envelope.CodeAuditLag)
	if all, err := c.Store.Issued(ctx); err != nil || len(all) > 0 {
		t.Errorf("issued without a record: %+v %v", all, err)
	}
}
