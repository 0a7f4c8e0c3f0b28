package mcpservers

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

var providers = flag.String("oidc", "", "folder in which npm has installed oidc-provider: `make mcp-servers`")

// provider is an authorization server that nobody here wrote, whose access tokens live for 5 s, and their resource.
type provider struct {
	*testing.T
	url     string
	vault   http.Handler
	refused atomic.Int64 // requests with a token that the provider does not know
	bare    atomic.Int64 // requests without one
}

// history counts the renewals of tokens and lists the errors that the provider reports.
type history struct {
	Renewals int
	Errors   []string
}

// TestAuthorizationServer makes 200 calls with two executors during more than two lives of a token. No call sees a 401.
// Then the grant is revoked. It needs oidc-provider of npm, which `make mcp-servers` installs.
func TestAuthorizationServer(t *testing.T) {
	if *providers == "" {
		t.Log("make mcp-servers runs this with the provider")
		return
	}
	t.Parallel()
	p := &provider{T: t, vault: vaultServer()}
	p.start()
	b := vault(t, listen(t, p), p.browse)
	turn := time.NewTicker(55 * time.Millisecond)
	defer turn.Stop()
	var all sync.WaitGroup
	begun := time.Now()
	for range 200 {
		all.Go(func() {
			if r := opens(t, b); r.Status != envelope.Success {
				t.Errorf("%s: %v", r.Status, r.Error)
			}
		})
		<-turn.C
	}
	all.Wait()
	h := p.asks(http.MethodGet)
	t.Logf("%d renewals in %s", h.Renewals, time.Since(begun))
	if h.Renewals < 2 || h.Renewals > 5 || len(h.Errors) > 0 || p.refused.Load() > 0 || p.bare.Load() != 1 {
		t.Errorf("%+v, %d tokens refused, %d requests without one", h, p.refused.Load(), p.bare.Load())
	}
	p.asks(http.MethodPost)
	revoked(t, b)
	sealed(t, b)
}

// start runs the provider until the end of the test.
func (p *provider) start() {
	p.Helper()
	module := filepath.Join(*providers, "node_modules", "oidc-provider", "lib", "index.js")
	cmd := exec.Command("node", "oidc/provider.mjs", module, "5")
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.Fatal(err)
	}
	p.url = strings.TrimSpace(line)
}

// asks asks the provider what has happened, or with POST revokes all grants.
func (p *provider) asks(method string) (h history) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, p.url+"/test", nil)
	if err != nil {
		p.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		p.Fatal(err)
	}
	return h
}

// browse goes where a login leads, as a browser does, with its cookies.
func (p *provider) browse(address string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := browser.Get(address)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	return nil
}

// ServeHTTP lets requests through whose token the provider calls active and of this resource.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const path = "/.well-known/oauth-protected-resource"
	here := "http://" + r.Host
	if strings.HasPrefix(r.URL.Path, path) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"resource": here + "/mcp", "authorization_servers": []string{p.url}, "scopes_supported": []string{"mcp"},
		})
		return
	}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !bearer:
		p.bare.Add(1)
	case p.active(token, here+"/mcp"):
		p.vault.ServeHTTP(w, r)
		return
	default:
		p.refused.Add(1)
	}
	w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", here+path+"/mcp"))
	w.WriteHeader(http.StatusUnauthorized)
}

// active asks the provider about a token (RFC 7662).
func (p *provider) active(token, resource string) bool {
	about := strings.NewReader(url.Values{"token": {token}}.Encode())
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+"/token/introspection", about)
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("resource", "of-the-resource")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var said struct {
		Active bool
		Aud    string
	}
	return json.NewDecoder(resp.Body).Decode(&said) == nil && said.Active && said.Aud == resource
}
