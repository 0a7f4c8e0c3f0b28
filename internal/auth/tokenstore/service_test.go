package tokenstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
)

// counter is a service, and what it has put on record.
type counter struct {
	*offices
	tokenstore.Service
	records  []audit.Record
	operator auth.Principal
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
	c.operator.Role = auth.Operator
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
	issued, refusal := c.Issue(ctx, &c.operator, envelope.IssueRequest{
		Tenant: "acme", Actor: "agent://a", Role: "agent", Scopes: []string{"pay", "read"}, RenewS: 3600,
	})
	c.is("issue", refusal, "")
	p, err := c.Store.Verifier().Verify(issued.Token, c.now)
	if err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(auth.Life)
	late := tokenstore.Service{Store: c.store(), Record: c.Record}
	expired, err := late.Store.Verifier().Verify(issued.Token, c.now)
	if !errors.Is(err, auth.ErrExpired) {
		t.Fatal(err)
	}
	renewed, refusal := late.Renew(ctx, expired)
	c.is("renew", refusal, "")
	if renewed.Family != p.Family || !renewed.Expires.After(c.now) {
		t.Errorf("%+v", renewed)
	}
	narrowed, refusal := late.Narrow(ctx, expired, envelope.NarrowRequest{Scopes: []string{"read"},
		Actor: "agent://a/sub"})
	c.is("narrow", refusal, "")
	_, refusal = late.Narrow(ctx, expired, envelope.NarrowRequest{Scopes: []string{"admin"}})
	c.is("widen", refusal, envelope.CodeForbidden)
	list, refusal := late.List(ctx, &c.operator, envelope.CredentialsRequest{Tenant: "acme"})
	c.is("list", refusal, "")
	if len(list.Credentials) != 1 || list.Credentials[0].Family != p.Family || list.More {
		t.Errorf("%+v", list)
	}
	_, refusal = late.Revoke(ctx, &c.operator, envelope.RevokeRequest{Family: p.Family})
	c.is("revoke", refusal, "")
	c.hears(late.Store, renewed.Token, auth.ErrRevoked)
	c.hears(late.Store, narrowed.Token, auth.ErrRevoked)
	_, refusal = late.Rotate(ctx, &c.operator, envelope.RotateRequest{})
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
	if r := c.records[4]; r.Tenant != "acme" || r.Actor != "agent://a" || r.Credential.Role != "agent" {
		t.Errorf("a revocation by family: %+v of %+v", r, r.Credential)
	}
	if c.records[5].Credential.Distrust {
		t.Error("a rotation is on record as one with distrust")
	}
}

// Renewed and narrowed tokens keep the roles of a credential, a narrowed one may have fewer, and list and record name
// them.
func TestRolesOfTokens(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	issued, refusal := c.Issue(ctx, &c.operator, envelope.IssueRequest{
		Tenant: "acme", Actor: "agent://a", Role: "agent", RoleIDs: []string{"writer", "reader"}, RenewS: 3600,
	})
	c.is("issue", refusal, "")
	has := func(what string, a envelope.TokenResponse, want ...string) *auth.Principal {
		t.Helper()
		p, err := c.Store.Verifier().Verify(a.Token, c.now)
		if err != nil || !slices.Equal(p.RoleIDs, want) {
			t.Fatalf("%s: %+v, %v", what, p, err)
		}
		return p
	}
	p := has("issued", issued, "reader", "writer")
	renewed, refusal := c.Renew(ctx, p)
	c.is("renew", refusal, "")
	has("renewed", renewed, "reader", "writer")
	kept, refusal := c.Narrow(ctx, p, envelope.NarrowRequest{})
	c.is("narrow", refusal, "")
	has("kept", kept, "reader", "writer")
	fewer, refusal := c.Narrow(ctx, p, envelope.NarrowRequest{RoleIDs: []string{"reader"}})
	c.is("narrow to one", refusal, "")
	has("fewer", fewer, "reader")
	_, refusal = c.Narrow(ctx, p, envelope.NarrowRequest{RoleIDs: []string{"boss"}})
	c.is("widen", refusal, envelope.CodeForbidden)
	list, refusal := c.List(ctx, &c.operator, envelope.CredentialsRequest{})
	c.is("list", refusal, "")
	if len(list.Credentials) != 1 || !slices.Equal(list.Credentials[0].RoleIDs, []string{"reader", "writer"}) {
		t.Errorf("listed: %+v", list)
	}
	if r := c.records[0].Credential.Roles; !slices.Equal(r, []string{"reader", "writer"}) {
		t.Errorf("on record: %q", r)
	}
}

// Nobody but operators issues, lists, revokes and rotates.
func TestServiceIsForOperators(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	agent := c.person("agent://a")
	for _, by := range []*auth.Principal{nil, &agent} {
		_, refusal := c.Issue(ctx, by, envelope.IssueRequest{})
		c.is("issue", refusal, envelope.CodeForbidden)
		_, refusal = c.Revoke(ctx, by, envelope.RevokeRequest{})
		c.is("revoke", refusal, envelope.CodeForbidden)
		_, refusal = c.List(ctx, by, envelope.CredentialsRequest{})
		c.is("list", refusal, envelope.CodeForbidden)
		_, refusal = c.Rotate(ctx, by, envelope.RotateRequest{})
		c.is("rotate", refusal, envelope.CodeForbidden)
	}
	if len(c.records) > 0 {
		t.Errorf("%+v", c.records)
	}
}

// What cannot be asked is refused, and what cannot be put on record is not done.
func TestServiceRefuses(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	good := envelope.IssueRequest{Tenant: "acme", Actor: "agent://a", Role: "agent"}
	for name, spoil := range map[string]func(*envelope.IssueRequest){
		"role":  func(q *envelope.IssueRequest) { q.Role = "king" },
		"life":  func(q *envelope.IssueRequest) { q.LifeS = 24*3600 + 1 },
		"past":  func(q *envelope.IssueRequest) { q.LifeS = -1 },
		"renew": func(q *envelope.IssueRequest) { q.RenewS = int64(tokenstore.MaxRenewal/time.Second) + 1 },
	} {
		q := good
		spoil(&q)
		_, refusal := c.Issue(ctx, &c.operator, q)
		c.is(name, refusal, envelope.CodeMalformed)
	}
	for name, q := range map[string]envelope.RevokeRequest{
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

// A token of up to 24 hours is for clients that cannot renew it; one that is renewed keeps its life.
func TestLifeOfTokens(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	for life, want := range map[int64]time.Duration{0: 15 * time.Minute, 86400: 24 * time.Hour, 60: time.Minute} {
		a, refusal := c.Issue(ctx, &c.operator, envelope.IssueRequest{
			Tenant: "acme", Actor: "agent://a", Role: "agent", LifeS: life, RenewS: 48 * 3600,
		})
		c.is("issue", refusal, "")
		p, err := c.Store.Verifier().Verify(a.Token, c.now)
		if err != nil {
			t.Fatal(err)
		}
		renewed, refusal := c.Renew(ctx, p)
		c.is("renew", refusal, "")
		for _, of := range []envelope.TokenResponse{a, renewed} {
			if got := of.Expires.Sub(c.now.Truncate(time.Second)); got != want {
				t.Errorf("the token lives for %s, want %s", got, want)
			}
		}
	}
}

// An agent's token that was narrowed and does not say from which role is not renewed, whatever the list of credentials
// says of its root.
func TestTokensOfUnknownOrigin(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	for _, role := range []auth.Role{auth.Agent, auth.Operator, auth.Gateway} {
		root := c.person("agent://a")
		root.Role = role
		c.issue(c.Store, root)
		child := root
		child.Actor, child.Role, child.ID, child.Family = "agent://a/x", auth.Agent, auth.NewID(), auth.NewID()
		child.Chain = []string{root.Family}
		_, refusal := c.Renew(ctx, &child)
		c.is(fmt.Sprintf("narrowed from %s", role), refusal, envelope.CodeForbidden)
	}
}

// The answer counts the listed families that a revocation ends, or suggests names. It is stored either way.
func TestRevocationOfNothingListed(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	listed, unlisted := c.person("agent://billing"), c.person("agent://ghost/x")
	c.issue(c.Store, listed)
	offline, err := c.Store.Mint(unlisted)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		q        envelope.RevokeRequest
		families int
		already  int
		nearest  []string
	}{
		{"a misspelt family", envelope.RevokeRequest{Family: listed.Family[:len(listed.Family)-1] + "0"}, 0, 0,
			[]string{listed.Family}},
		{"another family", envelope.RevokeRequest{Family: "none"}, 0, 0, nil},
		{"a misspelt actor", envelope.RevokeRequest{Tenant: "acme", Actor: "agent://biling"}, 0, 0,
			[]string{"agent://billing"}},
		{"another tenant", envelope.RevokeRequest{Tenant: "amce", Actor: "agent://billing"}, 0, 0,
			[]string{"agent://billing in tenant acme"}},
		{"an actor of unlisted tokens", envelope.RevokeRequest{Tenant: "acme", Actor: "agent://ghost"}, 0, 0, nil},
		{"a family", envelope.RevokeRequest{Family: listed.Family}, 1, 0, nil},
		{"the family again", envelope.RevokeRequest{Family: listed.Family}, 1, 1, nil},
		{"the actor", envelope.RevokeRequest{Tenant: "acme", Actor: "agent://billing"}, 1, 1, nil},
	} {
		if err := c.Store.Prove(ctx); err != nil { // it knows the revocation before
			t.Fatal(err)
		}
		a, refusal := c.Revoke(ctx, &c.operator, test.q)
		c.is(test.name, refusal, "")
		if a.Families != test.families || a.Already != test.already || !slices.Equal(a.Nearest, test.nearest) {
			t.Errorf("%s: %+v", test.name, a)
		}
	}
	c.hears(c.Store, offline, auth.ErrRevoked)
}

// The list leaves out expired credentials, and says which ones are of a distrusted key. The operator who distrusts it
// keeps a good one.
func TestListedStates(t *testing.T) {
	c, ctx := newCounter(t), t.Context()
	c.issue(c.Store, c.operator)
	short := c.person("agent://short")
	short.RenewUntil = time.Time{}
	c.issue(c.Store, short)
	token := c.issue(c.Store, c.person("agent://a"))
	c.now = c.now.Add(auth.Life)
	late := tokenstore.Service{Store: c.store(), Record: c.Record}
	for _, distrusted := range []bool{false, true} {
		if distrusted {
			_, refusal := late.Rotate(ctx, &c.operator, envelope.RotateRequest{Distrust: true})
			c.is("rotate", refusal, "")
			if r := c.records[len(c.records)-1]; r.Event != audit.KeyRotated || !r.Credential.Distrust {
				t.Errorf("on record: %+v of %+v", r, r.Credential)
			}
			c.hears(late.Store, token, auth.ErrUnknownKey)
		}
		list, refusal := late.List(ctx, &c.operator, envelope.CredentialsRequest{})
		c.is("list", refusal, "")
		got := map[string]bool{}
		for _, listed := range list.Credentials {
			got[listed.Actor] = listed.Distrusted
		}
		if want := map[string]bool{"agent://op": false, "agent://a": distrusted}; !maps.Equal(got, want) {
			t.Errorf("distrusted %v: %v", distrusted, got)
		}
	}
}
