package oauth_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth/oauthtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open starts an authorization server on the loopback interface.
func open(t *testing.T, site *oauthtest.Server) *oauthtest.Server {
	t.Helper()
	s := httptest.NewServer(site)
	t.Cleanup(s.Close)
	site.URL, site.Resource, site.Life = s.URL, http.NotFoundHandler(), time.Minute
	return site
}

// client follows redirects and keeps no connections.
func client() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

// logIn logs in with a browser that goes where it is sent.
func logIn(t *testing.T, site *oauthtest.Server, o oauth.LoginOptions) (oauth.Grant, error) {
	t.Helper()
	o.Client = client()
	browsed := make(chan error, 1)
	if o.Show == nil {
		o.Show = func(address string) { go func() { browsed <- oauthtest.Browse(address) }() }
		defer func() {
			select {
			case err := <-browsed:
				if err != nil {
					t.Error(err)
				}
			default:
			}
		}()
	}
	return oauth.Login(t.Context(), site.URL+"/mcp", o)
}

func TestLogin(t *testing.T) {
	for name, o := range map[string]oauth.LoginOptions{"registers": {}, "known": {ClientID: "known"}} {
		t.Run(name, func(t *testing.T) {
			site := open(t, &oauthtest.Server{Closed: o.ClientID != ""})
			g, err := logIn(t, site, o)
			if err != nil {
				t.Fatal(err)
			}
			if g.Resource != site.URL+"/mcp" || g.TokenURL != site.URL+"/token" || g.First.Refresh == "" || g.ClientID == "" {
				t.Errorf("got %+v", g)
			}
			raw, err := g.Encode()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "oauth")
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			read, err := oauth.ReadGrant(file)
			if diff := cmp.Diff(g, read); diff != "" || err != nil {
				t.Errorf("%v, %s", err, diff)
			}
			w := &world{t, site, &oauthtest.Store{}, read}
			k := oauth.NewKeeper("docs", read, w.store, client())
			w.works(k)
			site.Revoke()
			if len(site.Problems()) > 0 {
				t.Errorf("%q", site.Problems())
			}
		})
	}
}

func TestLoginRefused(t *testing.T) {
	for name, c := range map[string]struct {
		site *oauthtest.Server
		want string
	}{
		"denied":          {&oauthtest.Server{Deny: true}, `refused the login: "access_denied" "not today"`},
		"no registration": {&oauthtest.Server{Closed: true}, "name it with --client-id"},
		"a program":       {&oauthtest.Server{LoginAt: "editor://127.0.0.1/open"}, `has the scheme "editor"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := logIn(t, open(t, c.site), oauth.LoginOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLoginOpen holds that a server that asks nobody for a token is named as such.
func TestLoginOpen(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	_, err := oauth.Login(t.Context(), s.URL, oauth.LoginOptions{Client: client()})
	if err == nil || !strings.Contains(err.Error(), "asks for no login: it answers HTTP status 404") {
		t.Errorf("got %v", err)
	}
}

// TestLoginState holds that an answer with another state is refused, and that the login waits for its own.
func TestLoginState(t *testing.T) {
	site := open(t, &oauthtest.Server{})
	var forged []string
	g, err := logIn(t, site, oauth.LoginOptions{Show: func(address string) {
		at, err := url.Parse(address)
		if err != nil {
			t.Error(err)
			return
		}
		back := at.Query().Get("redirect_uri")
		for _, q := range []string{"?code=evil", "?code=evil&state=x", "?error=access_denied&state=x", ""} {
			resp, err := client().Get(back + q)
			if err != nil {
				t.Error(err)
				return
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				forged = append(forged, fmt.Sprintf("%s: %d %s", q, resp.StatusCode, text))
			}
		}
		if err := oauthtest.Browse(address); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || g.First.Access == "" || len(forged) > 0 {
		t.Errorf("%v, %q", err, forged)
	}
}

// TestLoginPasted logs in with a browser on another host, which cannot open the page at the end.
func TestLoginPasted(t *testing.T) {
	site := open(t, &oauthtest.Server{})
	from, to := io.Pipe()
	_, err := logIn(t, site, oauth.LoginOptions{Paste: from, Show: func(address string) {
		stop := client()
		stop.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, err := stop.Get(address)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		go func() { _, _ = fmt.Fprintf(to, "what?\n %s \n", resp.Header.Get("Location")) }()
	}})
	if err != nil {
		t.Error(err)
	}
	_ = from.Close()
}

func TestLoginCancelled(t *testing.T) {
	site := open(t, &oauthtest.Server{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := oauth.Login(ctx, site.URL+"/mcp", oauth.LoginOptions{Client: client(), Show: func(string) { cancel() }})
	if err == nil || !strings.Contains(err.Error(), "nobody logged in") {
		t.Errorf("got %v", err)
	}
}
