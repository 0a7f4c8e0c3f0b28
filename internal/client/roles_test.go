package client

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// A token without the roles that were asked for, as an earlier build issues it, is not handed on as if it had them.
func TestTokenWithoutItsRoles(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := auth.NewSigner("d", "k", key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		has, wants []string
		ok         bool
	}{
		{nil, nil, true}, {[]string{"reader"}, nil, true}, {[]string{"reader", "writer"}, []string{"reader"}, true},
		{nil, []string{"reader"}, false}, {[]string{"writer"}, []string{"reader"}, false},
	} {
		p := auth.Principal{Tenant: "t", Actor: "agent://a", Role: auth.Agent, RoleIDs: test.has, ID: auth.NewID(),
			Family: auth.NewFamily(test.has), Issued: time.Now(), Expires: time.Now().Add(time.Minute)}
		token, err := signer.Mint(p)
		if err != nil {
			t.Fatal(err)
		}
		err = CheckRoles(envelope.TokenResponse{Token: token, Family: p.Family}, test.wants)
		if (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), p.Family) {
			t.Errorf("%q of %q: %v", test.wants, test.has, err)
		}
	}
}
