package oauth_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth/oauthtest"
)

// direct sends requests to a handler without a network, so that they work in a bubble.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// world is a grant, and what keepers of it need.
type world struct {
	*testing.T
	site  *oauthtest.Server
	store *oauthtest.Store
	grant oauth.Grant
}

func newWorld(t *testing.T, life time.Duration) *world {
	t.Helper()
	site := &oauthtest.Server{URL: "https://mcp.example.com", Life: life, Resource: http.NotFoundHandler()}
	now := time.Now()
	access, refresh := site.Issue()
	return &world{t, site, &oauthtest.Store{}, oauth.Grant{
		Key: bytes.Repeat([]byte{7}, 32), Server: site.URL + "/mcp", Resource: site.URL + "/mcp", ClientID: "known",
		TokenURL: site.URL + "/token",
		First:    oauth.Tokens{Access: access, Refresh: refresh, Issued: now, Expiry: now.Add(life)},
	}}
}

func (w *world) keeper() *oauth.Keeper {
	return oauth.NewKeeper("docs", w.grant, w.store, &http.Client{Transport: direct{w.site}})
}

// call makes a request with the token of a keeper, as package client does. It returns its status.
func (w *world) call(ctx context.Context, k *oauth.Keeper) (int, error) {
	token := ""
	for range 2 {
		var err error
		if token, err = k.Token(ctx, token); err != nil {
			return 0, err
		}
		r := httptest.NewRequest(http.MethodPost, w.site.URL+"/mcp", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		w.site.ServeHTTP(answer, r)
		if answer.Code != http.StatusUnauthorized {
			return answer.Code, nil
		}
	}
	return http.StatusUnauthorized, k.Refused()
}

// works fails the test unless a request with the token of a keeper is let in.
func (w *world) works(k *oauth.Keeper) {
	w.Helper()
	if status, err := w.call(w.Context(), k); status != http.StatusNotFound || err != nil {
		w.Errorf("status %d, %v", status, err)
	}
}

// over fails the test unless a keeper says that an operator must log in again.
func (w *world) over(k *oauth.Keeper) {
	w.Helper()
	_, err := w.call(w.Context(), k)
	if _, is := errors.AsType[*oauth.LoginError](err); !is ||
		!strings.Contains(err.Error(), "`toolbus tools import-mcp --login --name docs URL`") {
		w.Errorf("got %v", err)
	}
}

func (w *world) unharmed(renewals int) {
	w.Helper()
	if n, _ := w.site.Counts(); n != renewals || len(w.site.Problems()) > 0 {
		w.Errorf("%d renewals, want %d; %q", n, renewals, w.site.Problems())
	}
}

// pass lets time pass in a bubble.
func (*world) pass(d time.Duration) { pass(d) }

func pass(d time.Duration) { <-time.After(d) }

// slow is a store, and a network, on which each step takes time, so that others come between.
type slow struct {
	oauth.Store
	direct
}

func (s slow) Read(ctx context.Context, id string) ([]byte, uint64, error) {
	pass(5 * time.Millisecond)
	return s.Store.Read(ctx, id)
}

func (s slow) Write(ctx context.Context, id string, data []byte, revision uint64) (bool, error) {
	pass(5 * time.Millisecond)
	return s.Store.Write(ctx, id, data, revision)
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	pass(100 * time.Millisecond)
	resp, err := s.direct.RoundTrip(r)
	pass(100 * time.Millisecond)
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return resp, err
}

// TestKeepers lets two executors, each with several calls at a time, use tokens of two seconds.
func TestKeepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2*time.Second)
		s := slow{w.store, direct{w.site}}
		keeper := func() *oauth.Keeper { return oauth.NewKeeper("docs", w.grant, s, &http.Client{Transport: s}) }
		keepers := []*oauth.Keeper{keeper(), keeper()}
		for range 50 {
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() { w.works(keepers[i%2]) })
			}
			all.Wait()
			w.pass(190 * time.Millisecond)
		}
		if _, refused := w.site.Counts(); refused > 0 {
			t.Errorf("%d requests had an expired token", refused)
		}
		if n, _ := w.site.Counts(); n < 5 || n > 8 || len(w.site.Problems()) > 0 { // one in 1.5 s and the time of a renewal
			t.Errorf("%d renewals; %q", n, w.site.Problems())
		}
		w.works(w.keeper())
	})
}

func TestKeeperFailures(t *testing.T) {
	for name, test := range map[string]func(w *world, one, two *oauth.Keeper){
		"expired while nobody called": func(w *world, one, two *oauth.Keeper) {
			w.pass(time.Hour)
			w.works(one)
			w.works(two)
			w.unharmed(1)
		},
		"refused before its time": func(w *world, one, two *oauth.Keeper) {
			w.pass(6 * time.Second)
			w.site.Forget()
			w.works(one)
			w.works(two)
			w.unharmed(1)
		},
		"refused for good": func(w *world, one, two *oauth.Keeper) {
			w.site.Refuse(true)
			w.over(one) // a token of this second is not renewed
			w.unharmed(0)
			w.pass(6 * time.Second)
			for range 5 {
				w.over(one)
				w.over(two)
			}
			w.unharmed(1)
			w.site.Refuse(false)
			w.works(one)
		},
		"refused, by the clock of another executor": func(w *world, _, _ *oauth.Keeper) {
			w.grant.First.Issued = time.Now().Add(time.Minute)
			w.site.Forget()
			w.works(w.keeper())
			w.unharmed(1)
		},
		"an authorization server that hangs": func(w *world, _, two *oauth.Keeper) {
			hung := oauth.NewKeeper("docs", w.grant, w.store, &http.Client{Transport: dead{}})
			w.works(hung)
			w.pass(8 * time.Second)
			begun := time.Now()
			w.works(hung) // the call that has begun the renewal waits for a second, and others do not
			for range 5 {
				w.works(hung)
			}
			if took := time.Since(begun); took != time.Second {
				w.Errorf("calls with a token that can be used took %s", took)
			}
			hung.Wait()
			w.works(two)
		},
		"a call that ends while its token is renewed": func(w *world, _, two *oauth.Keeper) {
			slowly := oauth.NewKeeper("docs", w.grant, w.store, &http.Client{Transport: slow{nil, direct{w.site}}})
			w.pass(time.Hour)
			ctx, cancel := context.WithTimeout(w.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := slowly.Token(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("got %v", err)
			}
			slowly.Wait()
			w.works(two) // the new token is stored
			w.unharmed(1)
		},
		"revoked": func(w *world, one, two *oauth.Keeper) {
			w.works(two)
			w.site.Revoke()
			w.pass(time.Hour)
			w.over(one)
			w.over(two)
			w.over(w.keeper())
			w.unharmed(0)
		},
		"no refresh token": func(w *world, _, _ *oauth.Keeper) {
			w.grant.First.Refresh = ""
			k := w.keeper()
			w.works(k)
			w.pass(time.Hour)
			w.over(k)
		},
		"authorization server down": func(w *world, one, two *oauth.Keeper) {
			w.site.Down(true)
			w.pass(8 * time.Second)
			w.works(one) // the token can still be used
			w.pass(2 * time.Second)
			if _, err := one.Token(w.Context(), ""); err == nil || !strings.Contains(err.Error(), "HTTP status 503") {
				w.Errorf("got %v", err)
			}
			w.site.Down(false)
			w.works(two)
			w.pass(3 * time.Second)
			w.works(one)
			w.unharmed(1)
		},
		"bus away after the renewal": func(w *world, one, two *oauth.Keeper) {
			w.works(one)
			w.pass(8 * time.Second)
			forgets := &forgetful{Store: w.store, after: 1}
			lost := oauth.NewKeeper("docs", w.grant, forgets, &http.Client{Transport: direct{w.site}})
			w.works(lost) // its lease is stored, and the result is not
			w.works(lost) // now the result is stored
			w.works(one)
			w.works(two)
			w.unharmed(1)
		},
		"bus away": func(w *world, one, _ *oauth.Keeper) {
			w.works(one)
			w.store.Away(true)
			w.pass(8 * time.Second)
			w.works(one)
			w.pass(8 * time.Second)
			if _, err := one.Token(w.Context(), ""); err == nil || !strings.Contains(err.Error(), "the bus is away") {
				w.Errorf("got %v", err)
			}
		},
		"an executor that dies while it renews": func(w *world, one, two *oauth.Keeper) {
			w.works(two)
			dying := oauth.NewKeeper("docs", w.grant, w.store, &http.Client{Transport: dead{}})
			w.pass(time.Hour)
			ctx, cancel := context.WithCancel(w.Context())
			lost := make(chan error, 1)
			go func() {
				_, err := dying.Token(ctx, "")
				lost <- err
			}()
			synctest.Wait()
			w.works(one) // waits until the lease has ended
			cancel()
			<-lost
			w.unharmed(1)
		},
		"changed on the bus": func(w *world, one, _ *oauth.Keeper) {
			w.works(one)
			w.store.Change(func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
			if _, err := w.keeper().Token(w.Context(), ""); err == nil || !strings.Contains(err.Error(), "was changed") {
				w.Errorf("got %v", err)
			}
			w.unharmed(0)
		},
		"an earlier entry on the bus": func(w *world, one, two *oauth.Keeper) {
			w.works(one)
			var before []byte
			w.store.Change(func(data []byte) []byte { before = data; return data })
			w.pass(9 * time.Second)
			w.works(one)
			w.store.Change(func([]byte) []byte { return before })
			w.pass(9 * time.Second)
			w.works(one) // it puts the newer one back, and does not use the old refresh token
			w.works(two)
			w.unharmed(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 10*time.Second)
				test(w, w.keeper(), w.keeper())
			})
		})
	}
}

// dead is a network in which requests get lost.
type dead struct{}

func (dead) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// forgetful is a store that loses one write, after some others.
type forgetful struct {
	*oauthtest.Store
	after int
}

func (f *forgetful) Write(ctx context.Context, id string, data []byte, revision uint64) (bool, error) {
	f.after--
	if f.after == -1 {
		return false, errors.New("the bus is away")
	}
	return f.Store.Write(ctx, id, data, revision)
}

// TestSealed holds that a reader of the bus learns no token.
func TestSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Minute)
		w.works(w.keeper())
		w.store.Change(func(data []byte) []byte {
			for _, secret := range []string{w.grant.First.Access, w.grant.First.Refresh, "access_token", w.grant.Server} {
				if bytes.Contains(data, []byte(secret)) {
					t.Errorf("the entry contains %s", secret)
				}
			}
			return data
		})
		other := w.grant
		other.Key = bytes.Repeat([]byte{8}, 32)
		if other.ID() == w.grant.ID() || bytes.Contains([]byte(w.grant.ID()), w.grant.Key) {
			t.Error("the id does not depend on the key")
		}
	})
}
