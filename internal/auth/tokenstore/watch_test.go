package tokenstore

import (
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// What was read of a server that is behind the one before, which has no entry that was known already, is not believed
// until the leader of the bucket has said that nothing is missing.
func TestReadWhereSomethingIsMissing(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := auth.NewSigner("test", "k", private)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p := auth.Principal{Tenant: "acme", Actor: "agent://a", Role: auth.Agent, ID: auth.NewID(),
		Family: auth.NewID(), Issued: now.Truncate(time.Second), Expires: now.Add(time.Hour)}
	token, err := signer.Mint(p)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{
		checker: &auth.Verifier{
			Keys: auth.NewKeyring("test", nil), Revoked: &auth.Revocations{Lease: time.Hour},
		},
		synced: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	keys := map[string]signingKey{"k": {Public: public}}
	is := func(want error) {
		t.Helper()
		if _, err := s.checker.Verify(token, now); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	s.show(view{keys: keys, families: map[string]bool{p.Family: true}, seq: 2})
	s.checker.Revoked.MarkFresh(now)
	is(auth.ErrRevoked)
	s.show(view{keys: keys, seq: 1})
	is(auth.ErrNotReady)
	s.checker.Revoked.MarkFresh(now)
	is(nil)
	s.show(view{seq: 0})
	is(auth.ErrNotReady)
}
