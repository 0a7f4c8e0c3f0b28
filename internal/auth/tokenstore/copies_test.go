package tokenstore_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// request is the context of a request, which its copies share.
func request(t *testing.T, id string) context.Context {
	return call.NewContext(t.Context(), call.Credential{Request: id})
}

// Copies of a request create one token, whichever dispatchers get them. Other requests create others.
func TestCopiesCreateOneToken(t *testing.T) {
	c := newCounter(t)
	other := tokenstore.Service{Store: c.store(), Record: c.Record}
	holder := c.person("agent://a")
	q := envelope.IssueRequest{
		Tenant: "acme", Actor: "agent://a", Role: "agent", Scopes: []string{"pay"}, RoleIDs: []string{"reader"}, RenewS: 60,
	}
	for name, create := range map[string]func(*tokenstore.Service, context.Context, []string) (
		envelope.TokenResponse, *envelope.Error){
		"issue": func(s *tokenstore.Service, ctx context.Context, scopes []string) (
			envelope.TokenResponse, *envelope.Error) {
			q := q
			q.Scopes = scopes
			return s.Issue(ctx, &c.operator, q)
		},
		"narrow": func(s *tokenstore.Service, ctx context.Context, scopes []string) (
			envelope.TokenResponse, *envelope.Error) {
			return s.Narrow(ctx, &holder, envelope.NarrowRequest{Scopes: scopes})
		},
		"renew": func(s *tokenstore.Service, ctx context.Context, _ []string) (envelope.TokenResponse, *envelope.Error) {
			return s.Renew(ctx, &holder)
		},
	} {
		made := func(s *tokenstore.Service, id string, scopes ...string) *auth.Principal {
			t.Helper()
			a, refusal := create(s, request(t, id), scopes)
			c.is(name, refusal, "")
			p, err := c.Store.Verifier().Verify(a.Token, c.now)
			if err != nil {
				t.Fatal(name, err)
			}
			return p
		}
		first, copied, next := made(&c.Service, "1", "pay"), made(&other, "1", "pay"), made(&other, "2", "pay")
		if copied.ID != first.ID || copied.Family != first.Family {
			t.Errorf("%s: a copy of the request created %s of %s beside %s of %s", name, copied.ID, copied.Family, first.ID,
				first.Family)
		}
		if next.ID == first.ID {
			t.Errorf("%s: another request created the same token", name)
		}
		if name != "renew" && made(&other, "1").Family == first.Family {
			t.Errorf("%s: a request with other contents and the same id created the same token", name)
		}
	}
	if all, err := c.Store.Issued(t.Context()); err != nil || len(all) != 3 {
		t.Errorf("listed: %+v, %v", all, err)
	}
	issued := slices.DeleteFunc(c.records, func(r audit.Record) bool { return r.Event != audit.CredentialIssued })
	if len(issued) != 3 {
		t.Errorf("on record: %+v", issued)
	}
}

// A copy that comes after the credential was revoked creates none that is good.
func TestLateCopyIsRevoked(t *testing.T) {
	c := newCounter(t)
	other := tokenstore.Service{Store: c.store(), Record: c.Record}
	q := envelope.IssueRequest{Tenant: "acme", Actor: "agent://a", Role: "agent"}
	first, refusal := c.Issue(request(t, "1"), &c.operator, q)
	c.is("issue", refusal, "")
	_, refusal = c.Revoke(request(t, "2"), &c.operator, envelope.RevokeRequest{Tenant: q.Tenant, Actor: q.Actor})
	c.is("revoke", refusal, "")
	c.hears(other.Store, first.Token, auth.ErrRevoked)
	late, refusal := other.Issue(request(t, "1"), &c.operator, q)
	c.is("copy", refusal, "")
	c.hears(other.Store, late.Token, auth.ErrRevoked)
}

// Copies of a request that arrive at the same time create one token and one key.
func TestCopiesMeet(t *testing.T) {
	c := newCounter(t)
	var all sync.WaitGroup
	var families, kids [4]string
	for i := range families {
		s := &tokenstore.Service{Store: c.store(), Record: func(context.Context, audit.Record) error { return nil }}
		all.Go(func() {
			a, refusal := s.Issue(request(t, "1"), &c.operator, envelope.IssueRequest{
				Tenant: "acme", Actor: "agent://a", Role: "agent",
			})
			r, refusal2 := s.Rotate(request(t, "2"), &c.operator, envelope.RotateRequest{Distrust: true})
			if refusal != nil || refusal2 != nil {
				t.Error(refusal, refusal2)
			}
			families[i], kids[i] = a.Family, r.KeyID
			p, err := auth.Inspect(r.Token)
			if err != nil || p.KeyID != r.KeyID {
				t.Errorf("the token of the operator: %+v, %v", p, err)
			}
		})
	}
	all.Wait()
	for _, same := range [][4]string{families, kids} {
		if len(slices.Compact(slices.Sorted(slices.Values(same[:])))) != 1 {
			t.Errorf("created %q", same)
		}
	}
	if listed, err := c.Store.Issued(t.Context()); err != nil || len(listed) != 1 {
		t.Errorf("listed: %+v, %v", listed, err)
	}
}

// A copy of a rotation that comes after a newer one ends the use of no newer key.
func TestLateRotation(t *testing.T) {
	c := newCounter(t)
	_, refusal := c.Rotate(request(t, "1"), &c.operator, envelope.RotateRequest{Distrust: true})
	c.is("rotate", refusal, "")
	c.now = c.now.Add(time.Second)
	newer := tokenstore.Service{Store: c.store(), Record: c.Record}
	r, refusal := newer.Rotate(request(t, "2"), &c.operator, envelope.RotateRequest{})
	c.is("rotate again", refusal, "")
	copied, err := c.Store.Rotate(request(t, "1"), true)
	if err != nil || copied.KeyID == r.KeyID {
		t.Fatalf("%+v, %v", copied, err)
	}
	c.now = r.Since
	now := c.store()
	token, err := now.Mint(c.person("agent://a"))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := auth.Inspect(token); err != nil || p.KeyID != r.KeyID {
		t.Errorf("%+v, %v, want a token of key %s", p, err, r.KeyID)
	}
}

// Nothing is stored for a request after its deadline, which may have passed while the process was suspended.
func TestNothingIsStoredLate(t *testing.T) {
	c := newCounter(t)
	ctx, cancel := context.WithDeadline(request(t, "1"), time.Now().Add(-time.Second))
	defer cancel()
	if err := c.Store.Revoke(ctx, "family", "operator"); err == nil {
		t.Error("stored")
	}
}
