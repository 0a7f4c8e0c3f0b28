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

// A key is distrusted if it is deleted while its tokens are good. One that has ended is not. A server that is behind
// deletes nothing.
func TestDistrusted(t *testing.T) {
	now := time.Now()
	key := func(until time.Time) map[string]signingKey {
		return map[string]signingKey{"k": {Public: make([]byte, ed25519.PublicKeySize), Until: until}}
	}
	for name, c := range map[string]struct {
		before map[string]signingKey
		seq    uint64
		want   time.Time
	}{
		"good":       {key(time.Time{}), 2, now},
		"to end":     {key(now.Add(time.Second)), 2, now},
		"ended":      {key(now), 2, time.Time{}},
		"not known":  {nil, 2, time.Time{}},
		"seen again": {key(time.Time{}), 0, time.Time{}},
	} {
		s := &Store{
			Options: Options{Now: func() time.Time { return now }},
			checker: &auth.Verifier{Keys: auth.NewKeyring("test", nil), Revoked: &auth.Revocations{}},
			synced:  make(chan struct{}), changed: make(chan struct{}, 1),
		}
		s.show(view{keys: c.before, seq: 1})
		s.show(view{seq: c.seq})
		if got := s.Distrusted(); !got.Equal(c.want) || len(s.changed) == 1 != !got.IsZero() {
			t.Errorf("%s: distrusted %s, %d changes", name, got, len(s.changed))
		}
	}
}
