package tokensource

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// absent are dispatchers that answer from a time on.
type absent struct {
	until time.Time
	mint  func() string
}

func (a *absent) Ask(_ context.Context, _ string, _, answer any) (*envelope.Error, error) {
	if time.Now().Before(a.until) {
		return nil, errors.New("nobody answers")
	}
	*answer.(*envelope.TokenResponse) = envelope.TokenResponse{Token: a.mint()}
	return nil, nil
}

// A token that is still good when it is time to renew it, and expires while nobody renews it, is followed by a new
// connection soon after somebody does: that which the server let in meanwhile can do nothing but ask for it.
func TestConnectsAnewAfterATokenExpiredUnrenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer, err := auth.NewSigner("test", "k", ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
		if err != nil {
			t.Fatal(err)
		}
		const life = 10 * time.Second
		mint := func() string {
			now := time.Now()
			token, err := signer.Mint(auth.Principal{
				Tenant: "default", Actor: "a", Role: auth.Agent, ID: auth.NewID(), Family: "f", Issued: now,
				Expires: now.Add(life), RenewUntil: now.Add(time.Hour),
			})
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(mint()), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Read(file, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		back := time.Now().Add(time.Minute)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		again := time.Time{}
		b.Run(ctx, &absent{until: back, mint: mint}, func() {
			again = time.Now()
			stop()
		})
		if late := again.Sub(back); late < 0 || late > 2*time.Second {
			t.Errorf("it connects anew %s after dispatchers are back", late)
		}
	})
}
