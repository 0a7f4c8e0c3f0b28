package tokensource

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// office is whoever renews tokens.
type office struct {
	t       *testing.T
	signer  *auth.Signer
	asked   []time.Time
	refuses *envelope.Error
	away    bool
}

func newOffice(t *testing.T) *office {
	t.Helper()
	s, err := auth.NewSigner("test", "k", ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return &office{t: t, signer: s}
}

// token is one of agent://a that lives from now on.
func (o *office) token(life time.Duration) string {
	o.t.Helper()
	now := time.Now().Truncate(time.Second)
	token, err := o.signer.Mint(auth.Principal{
		Tenant: "t", Actor: "agent://a", Role: auth.Agent, ID: auth.NewID(), Family: "f", Issued: now,
		Expires: now.Add(life), RenewUntil: now.Add(time.Hour),
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return token
}

func (o *office) Ask(_ context.Context, _ string, _, answer any) (*envelope.Error, error) {
	o.asked = append(o.asked, time.Now())
	switch {
	case o.away:
		return nil, errors.New("nobody is there")
	case o.refuses != nil:
		return o.refuses, nil
	}
	answer.(*envelope.TokenResponse).Token = o.token(time.Minute)
	return nil, nil
}

func (o *office) file(token string) string {
	o.t.Helper()
	file := filepath.Join(o.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		o.t.Fatal(err)
	}
	return file
}

func (o *office) bearer(file string) *Source {
	o.t.Helper()
	b, err := Read(file, slog.New(slog.DiscardHandler))
	if err != nil {
		o.t.Fatal(err)
	}
	return b
}

// run keeps a token good for so long.
func run(t *testing.T, b *Source, o *office, long time.Duration) (again int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	b.Run(ctx, o, func() { again++ })
	return again
}

// A token is renewed at two thirds of its life, again and again, and its file has the newest.
func TestRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		began := time.Now()
		b := o.bearer(o.file(o.token(time.Minute)))
		first := b.Token()
		if again := run(t, b, o, 5*time.Minute); again != 0 || b.Expired() || b.Token() == first {
			t.Errorf("connected %d times anew, expired %t", again, b.Expired())
		}
		if n := len(o.asked); n < 7 || n > 9 {
			t.Errorf("renewed %d times in five minutes", n)
		}
		if after := o.asked[0].Sub(began); after < 35*time.Second || after > 41*time.Second {
			t.Errorf("renewed after %s", after)
		}
		kept, err := os.ReadFile(b.file)
		if err != nil || strings.TrimSpace(string(kept)) != b.Token() {
			t.Errorf("the file does not have the token: %v", err)
		}
		if info, err := os.Stat(b.file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	})
}

// While nobody answers it is asked for again and again; one that has expired meanwhile is renewed all the same, and
// then the connection is made anew.
func TestRenewedAfterAnAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		b := o.bearer(o.file(o.token(time.Minute)))
		o.away = true
		if run(t, b, o, 3*time.Minute); !b.Expired() || len(o.asked) < 5 {
			t.Fatalf("asked %d times, expired %t", len(o.asked), b.Expired())
		}
		o.away = false
		if again := run(t, b, o, time.Minute); again == 0 || b.Expired() {
			t.Errorf("connected %d times anew, expired %t", again, b.Expired())
		}
	})
}

// What another process has renewed is taken from the file that they share.
func TestSharedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		file := o.file(o.token(time.Minute))
		one, other := o.bearer(file), o.bearer(file)
		<-time.After(45 * time.Second)
		if err := one.Renew(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := other.Renew(t.Context(), o); err != nil || len(o.asked) != 1 || other.Token() != one.Token() {
			t.Errorf("%v, asked %d times", err, len(o.asked))
		}
	})
}

// A refusal for good is said, and asked about seldom.
func TestRefusedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		b := o.bearer(o.file(o.token(time.Minute)))
		o.refuses = envelope.NewError(envelope.CodeRevoked, "")
		var refused *RenewalError
		if err := b.Renew(t.Context(), o); !errors.As(err, &refused) || !strings.Contains(err.Error(), "revoked") {
			t.Error(err)
		}
		o.asked = nil
		if run(t, b, o, 10*time.Minute); len(o.asked) > 12 {
			t.Errorf("asked %d times in ten minutes", len(o.asked))
		}
	})
}

func TestUnreadableCredentials(t *testing.T) {
	o := newOffice(t)
	for name, content := range map[string]string{"empty": "", "words": "a b", "no token": "abc"} {
		if _, err := Read(o.file(content), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s is a credential", name)
		}
	}
	if _, err := Read(o.file("abc"), slog.New(slog.DiscardHandler)); !strings.Contains(err.Error(), fixRefused) {
		t.Errorf("no fix: %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no file is a credential")
	}
}

// issued is a token of another credential of the same actor.
func (o *office) issued(change func(*auth.Principal)) string {
	o.t.Helper()
	now := time.Now().Truncate(time.Second)
	p := auth.Principal{
		Tenant: "t", Actor: "agent://a", Role: auth.Agent, ID: auth.NewID(), Family: "other", Issued: now,
		Expires: now.Add(time.Minute), RenewUntil: now.Add(time.Hour),
	}
	change(&p)
	token, err := o.signer.Mint(p)
	if err != nil {
		o.t.Fatal(err)
	}
	return token
}

// A refused token is replaced by another one in the file, but not by one of somebody else.
func TestReissued(t *testing.T) {
	o := newOffice(t)
	b := o.bearer(o.file(o.token(time.Minute)))
	if ok, err := b.Reissue(); ok || err != nil {
		t.Errorf("the file has the refused token: %t, %v", ok, err)
	}
	for name, change := range map[string]func(*auth.Principal){
		"actor": func(p *auth.Principal) { p.Actor = "agent://b" },
		"role":  func(p *auth.Principal) { p.Role = auth.Auditor },
		"inbox": func(p *auth.Principal) { p.Scopes = []string{"read"} },
	} {
		other := o.issued(change)
		if err := os.WriteFile(b.file, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if ok, err := b.Reissue(); ok || err != nil || b.Token() == other {
			t.Errorf("another %s: %t, %v", name, ok, err)
		}
	}
	next := o.issued(func(*auth.Principal) {})
	if err := os.WriteFile(b.file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := b.Reissue(); !ok || err != nil || b.Token() != next {
		t.Errorf("%t, %v", ok, err)
	}
}

// A renewal does not replace a credential that an operator has issued into the file of an executor meanwhile.
func TestRenewalKeepsAnIssuedCredential(t *testing.T) {
	o := newOffice(t)
	executor := func(p *auth.Principal) { p.Role, p.Pool = auth.Executor, "default" }
	b := o.bearer(o.file(o.issued(func(p *auth.Principal) { executor(p); p.Family = "first000" })))
	next := o.issued(func(p *auth.Principal) { executor(p); p.Family, p.Expires = "second00", p.Expires.Add(time.Hour) })
	if err := os.WriteFile(b.file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *RenewalError
	if ok, err := b.Reissue(); ok || !errors.As(err, &refused) {
		t.Errorf("an executor connects with the instance name of another credential: %t, %v", ok, err)
	}
	if err := b.Renew(t.Context(), o); err != nil || len(o.asked) != 1 {
		t.Errorf("%v, asked %d times", err, len(o.asked))
	}
	if kept, err := os.ReadFile(b.file); err != nil || string(kept) != next {
		t.Errorf("the file has %s, %v", kept, err)
	}
}
