//go:build linux

package mcp_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth/oauthtest"
)

// guarded starts a server that wants a token of an authorization server, and returns the login of an operator there.
func guarded(t *testing.T, stateless bool, life time.Duration) (*oauthtest.Server, oauth.Grant) {
	t.Helper()
	s := &site{cancelled: make(chan struct{}, 1)}
	server := newServer()
	server.AddTool(&sdk.Tool{Name: "work", InputSchema: anything}, s.work)
	site := &oauthtest.Server{Life: life, Resource: sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless},
	)}
	h := httptest.NewServer(site)
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	t.Cleanup(h.CloseClientConnections)
	t.Cleanup(h.Close)
	site.URL = h.URL
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	now := time.Now()
	access, refresh := site.Issue()
	return site, oauth.Grant{
		Key: key, Server: h.URL + "/mcp", Resource: h.URL + "/mcp", ClientID: "known", TokenURL: h.URL + "/token",
		First: oauth.Tokens{Access: access, Refresh: refresh, Issued: now, Expiry: now.Add(life)},
	}
}

// executorOf is an executor with the file of a login, beside servers.json.
func executorOf(t *testing.T, site *oauthtest.Server, g oauth.Grant, store oauth.Store) *peer {
	t.Helper()
	p := &peer{t, newAdapter(t, mcp.Options{}), manifest(t, client.Server{URL: site.URL + "/mcp", OAuth: "login"},
		mcp.Endpoint{}), call.Idempotent}
	raw, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.manifest.Dir), "login"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	p.adapter.UseLogins(store)
	return p
}

// TestLogins lets two executors call a server whose tokens live for a second, until each token was renewed three times.
func TestLogins(t *testing.T) {
	for name, stateless := range map[string]bool{"sessions": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site, g := guarded(t, stateless, time.Second)
			store := &oauthtest.Store{}
			peers := []*peer{executorOf(t, site, g, store), executorOf(t, site, g, store)}
			calls := 0
			for renewals := 0; (renewals < 3 || calls < 50) && !t.Failed(); calls++ {
				var both sync.WaitGroup
				for _, p := range peers {
					both.Go(func() { p.works("hello") })
				}
				both.Wait()
				renewals, _ = site.Counts()
			}
			if len(site.Problems()) > 0 {
				t.Errorf("after %d calls: %q", calls, site.Problems())
			}
		})
	}
}

// TestLoginRefused holds that a refused access token is renewed, and that a revoked grant says what to do, in each era,
// over open connections and new ones.
func TestLoginRefused(t *testing.T) {
	const command = "log in again with `toolbus tools import-mcp --login --name test URL`"
	for name, stateless := range map[string]bool{"sessions": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			site, g := guarded(t, stateless, time.Hour)
			g.First.Issued = g.First.Issued.Add(-time.Minute)
			store := &oauthtest.Store{}
			one := executorOf(t, site, g, store)
			one.works("first")
			site.Forget()
			one.works("renewed")
			if renewals, _ := site.Counts(); renewals != 1 || len(site.Problems()) > 0 {
				t.Errorf("%d renewals, %q", renewals, site.Problems())
			}
			site.Revoke()
			refused := one.fails("work", `{"text":"revoked"}`) // the token is too young to be renewed
			one.wants(refused, "A-AUTH-SERVER_LOGIN", envelope.EffectNone)
			g.First.Expiry = g.First.Issued
			for range 2 {
				later := executorOf(t, site, g, &oauthtest.Store{})
				said := later.fails("work", `{"text":"revoked"}`)
				later.wants(said, "A-AUTH-SERVER_LOGIN", envelope.EffectNone)
				if !strings.Contains(said.Message, command) {
					t.Errorf("got %s", said.Message)
				}
			}
		})
	}
}

// TestLoginUseless holds that a server that takes no token costs one renewal, over open connections and new ones.
func TestLoginUseless(t *testing.T) {
	for name, open := range map[string]bool{"open": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			site, g := guarded(t, true, time.Hour)
			g.First.Issued = g.First.Issued.Add(-time.Minute)
			p := executorOf(t, site, g, &oauthtest.Store{})
			if open {
				p.works("first")
			}
			site.Refuse(true)
			for range 3 {
				p.wants(p.fails("work", `{"text":"refused"}`), "A-AUTH-SERVER_LOGIN", envelope.EffectNone)
			}
			if renewals, _ := site.Counts(); renewals != 1 || len(site.Problems()) > 0 {
				t.Errorf("%d renewals, %q", renewals, site.Problems())
			}
		})
	}
}

// TestLoginRest ends an adapter again and again, while it connects to a server with a login.
func TestLoginRest(t *testing.T) {
	site, g := guarded(t, true, time.Hour)
	p := executorOf(t, site, g, &oauthtest.Store{})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = p.call(ctx, "work", `{"text":"x"}`, nil)
		}()
		p.adapter.Rest()
		cancel()
		<-ended
	}
	p.adapter.Rest()
	p.works("after it")
}

// TestLoginRevoked revokes a grant under an open connection.
func TestLoginRevoked(t *testing.T) {
	site, g := guarded(t, true, time.Hour)
	g.First.Issued = g.First.Issued.Add(-time.Minute)
	p := executorOf(t, site, g, &oauthtest.Store{})
	p.works("first")
	site.Revoke()
	for range 2 {
		p.wants(p.fails("work", `{"text":"revoked"}`), "A-AUTH-SERVER_LOGIN", envelope.EffectNone)
	}
}

// TestLoginAgain holds that executors take the file of a new login without a restart.
func TestLoginAgain(t *testing.T) {
	site, g := guarded(t, true, time.Hour)
	old := g
	old.First.Access, old.First.Refresh, old.First.Issued = "old", "old", g.First.Issued.Add(-time.Minute)
	p := executorOf(t, site, old, &oauthtest.Store{})
	p.wants(p.fails("work", `{"text":"old"}`), "A-AUTH-SERVER_LOGIN", envelope.EffectNone)
	g.Key = append([]byte{^g.Key[0]}, g.Key[1:]...) // another login
	raw, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.manifest.Dir), "login"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	p.adapter.Rest() // ends the pause after the failure
	p.works("new")
}

// TestLoginMissing holds that an executor does not start without the file of a login.
func TestLoginMissing(t *testing.T) {
	for name, content := range map[string]string{"none": "", "another": `{"key":"AAAA","access_token":"secret"}`} {
		t.Run(name, func(t *testing.T) {
			site, g := guarded(t, true, time.Hour)
			p := executorOf(t, site, g, &oauthtest.Store{})
			file := filepath.Join(filepath.Dir(p.manifest.Dir), "login")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if content != "" {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := p.adapter.Validate(p.of("work"))
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
	g := oauth.Grant{Key: make([]byte, 32), TokenURL: "x"}
	p := executorOf(t, &oauthtest.Server{URL: "http://127.0.0.1:1"}, g, nil)
	_, err := p.call(context.Background(), "work", "{}", nil)
	if err == nil || !strings.Contains(err.Error(), "has no bus") {
		t.Errorf("without a bus: %v", err)
	}
}
