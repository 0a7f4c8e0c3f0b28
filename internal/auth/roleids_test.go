package auth

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// carrying returns an agent's token with roles.
func carrying(roles ...string) Principal {
	p := agent()
	p.RoleIDs, p.Family = roles, NewFamily(roles)
	return p
}

func TestCheckRoleIDs(t *testing.T) {
	long := strings.Repeat("r", maxRoleID)
	for name, test := range map[string]struct {
		p  Principal
		ok bool
	}{
		"none": {agent(), true}, "two": {carrying("reader", "a.b_c:d/e-F9"), true}, "longest": {carrying(long), true},
		"too long": {carrying(long + "r"), false}, "empty": {carrying(""), false}, "a space": {carrying("a b"), false},
		"begins with a dot": {carrying(".a"), false}, "too many": {carrying(slices.Repeat([]string{"r"}, 33)...), false},
		"of an operator": {func() Principal { p := carrying("r"); p.Role = Operator; return p }(), false},
		"family of none": {func() Principal { p := carrying("r"); p.Family = NewID(); return p }(), false},
	} {
		if err := test.p.Check(); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A build that does not know roles makes a token without them, of the same root. It carries no role, and not the
// default one, which the token may never have had. So does what is narrowed from it later.
func TestLostRoles(t *testing.T) {
	p := carrying("reader")
	older := p // as renewed by such a build
	older.RoleIDs = nil
	narrowed, err := older.Narrow(Narrowing{}, t0)
	if err != nil {
		t.Fatal(err)
	}
	byOlder, err := p.Narrow(Narrowing{}, t0)
	if err != nil {
		t.Fatal(err)
	}
	byOlder.RoleIDs = nil
	for name, lost := range map[string]Principal{"renewed": older, "then narrowed": narrowed, "narrowed": byOlder} {
		if err := lost.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if roles := lost.Carries("worker"); len(roles) > 0 {
			t.Errorf("%s: carries %q", name, roles)
		}
		if _, err := lost.Narrow(Narrowing{RoleIDs: []string{"reader"}}, t0); err == nil {
			t.Errorf("%s: gets a role again", name)
		}
	}
	if got := agent().Carries("worker"); !slices.Equal(got, []string{"worker"}) {
		t.Errorf("issued without roles: carries %q", got)
	}
}

// The claims of a token with roles keep their names, and a token without has no such claim.
func TestRoleClaim(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner("d", "k", key)
	if err != nil {
		t.Fatal(err)
	}
	for _, roles := range [][]string{nil, {"reader", "writer"}} {
		p := carrying(roles...)
		p.Issued, p.Expires = time.Unix(1, 0), time.Unix(2, 0)
		token, err := s.Mint(p)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]any{}
		if err := parsed.UnsafeClaimsWithoutVerification(&all); err != nil {
			t.Fatal(err)
		}
		if claim, ok := all["tb_role_ids"].([]any); len(claim) != len(roles) || ok != (roles != nil) {
			t.Errorf("%v", all)
		}
		if got, err := Inspect(token); err != nil || !slices.Equal(got.RoleIDs, roles) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
