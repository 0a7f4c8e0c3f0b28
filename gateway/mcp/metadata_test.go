package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// host serves a door at /mcp, and its metadata.
func (w *walled) host(o mcp.Options) *httptest.Server {
	w.t.Helper()
	w.token("door", "door://web", auth.Gateway, "")
	conn := w.connect(toolbus.Options{CredentialsFile: w.Credentials("door")})
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	o.NewClient = conn.Client
	return serveAt(w.t, mcp.New(w.t.Context(), client, o))
}

func serveAt(t *testing.T, door *mcp.Server) *httptest.Server {
	t.Helper()
	routes := http.NewServeMux()
	routes.Handle("/mcp", door.Handler())
	routes.Handle(mcp.MetadataPath, door.Metadata("/mcp"))
	routes.Handle(mcp.MetadataPath+"/", door.Metadata("/mcp"))
	s := httptest.NewServer(routes)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		door.Close()
	})
	return s
}

// challenges are those of the answer to a request with these headers.
func challenges(t *testing.T, endpoint string, header http.Header) map[string]string {
	t.Helper()
	body, more := modern("1", "whoami", `{}`, "")
	for name, value := range header {
		more[name] = value
	}
	resp := send(t, t.Context(), endpoint, body, more)
	_ = resp.Body.Close()
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil || resp.StatusCode != http.StatusUnauthorized || len(all) != 1 || all[0].Scheme != "bearer" {
		t.Fatalf("%s: %v, %v", resp.Status, all, err)
	}
	return all[0].Params
}

// The answer to a request without a good token names the metadata, which is that of the endpoint, or of the host. An
// authorization server is in it only if the operator named one.
func TestMetadata(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	s := w.host(mcp.Options{})
	said := challenges(t, s.URL+"/mcp", nil)
	if said["resource_metadata"] != s.URL+mcp.MetadataPath+"/mcp" || said["error"] != "" {
		t.Errorf("without a token: %v", said)
	}
	said = challenges(t, s.URL+"/mcp", http.Header{"Authorization": {"Bearer junk"}})
	if said["resource_metadata"] != s.URL+mcp.MetadataPath+"/mcp" || said["error"] != "invalid_token" {
		t.Errorf("with a wrong token: %v", said)
	}
	for path, resource := range map[string]string{"/mcp": s.URL + "/mcp", "": s.URL} {
		about, err := oauthex.GetProtectedResourceMetadata(t.Context(), s.URL+mcp.MetadataPath+path, resource, s.Client())
		if err != nil || len(about.AuthorizationServers) > 0 || len(about.BearerMethodsSupported) != 1 {
			t.Errorf("%q: %+v, %v", path, about, err)
		}
	}
	for path, want := range map[string]int{"/mcp": http.StatusOK, "/other": http.StatusNotFound} {
		status, text := get(t, s.URL+mcp.MetadataPath+path)
		if status != want || strings.Contains(text, "authorization_servers") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// Behind a proxy the metadata is that of the URL that clients use.
func TestMetadataBehindProxy(t *testing.T) {
	tools, _ := echoing(t)
	at, err := mcp.CheckURL("https://tools.example.com/bus/mcp")
	if err != nil {
		t.Fatal(err)
	}
	s := wall(t, tools).host(mcp.Options{URL: at, AuthorizationServers: []string{"https://auth.example.com"}})
	said := challenges(t, s.URL+"/mcp", nil)
	if said["resource_metadata"] != "https://tools.example.com"+mcp.MetadataPath+"/bus/mcp" {
		t.Errorf("%v", said)
	}
	for path, resource := range map[string]string{
		"": "https://tools.example.com", "/mcp": at.String(), "/bus/mcp": at.String(),
	} {
		about, err := oauthex.GetProtectedResourceMetadata(t.Context(), s.URL+mcp.MetadataPath+path, resource, s.Client())
		if err != nil || len(about.AuthorizationServers) != 1 || about.AuthorizationServers[0] != "https://auth.example.com" {
			t.Errorf("%q: %+v, %v", path, about, err)
		}
	}
}

// A door of a bus without tokens protects nothing.
func TestNoMetadata(t *testing.T) {
	f := start(t)
	s := serveAt(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	if status, text := get(t, s.URL+mcp.MetadataPath+"/mcp"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}
}

func get(t *testing.T, at string) (status int, text string) {
	t.Helper()
	resp, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body strings.Builder
	if err := resp.Write(&body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body.String()
}

// A client that knows nothing but the URL of the door, and its own secret at the authorization server, finds its way.
func TestClientFindsAuthorizationServer(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	token := w.token("ann", "agent://ann", auth.Agent, "")
	asked := make(chan url.Values, 10)
	routes := http.NewServeMux()
	issuer := httptest.NewServer(routes)
	defer issuer.Close()
	answer := func(members map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.ParseForm() == nil && r.Method == http.MethodPost {
				asked <- r.PostForm
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(members)
		}
	}
	routes.HandleFunc("/.well-known/oauth-authorization-server", answer(map[string]any{
		"issuer": issuer.URL, "authorization_endpoint": issuer.URL + "/authorize", "token_endpoint": issuer.URL + "/token",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
	}))
	routes.HandleFunc("/token", answer(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 600}))
	s := w.host(mcp.Options{AuthorizationServers: []string{issuer.URL}})
	handler, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: &oauthex.ClientCredentials{
			ClientID: "ann", ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: "secret"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := join(t, &sdk.StreamableClientTransport{Endpoint: s.URL + "/mcp", OAuthHandler: handler, MaxRetries: -1},
		"2025-11-25", nil)
	defer func() { _ = c.Close() }() // the server may have gone
	if got := words(callNamed(t, c, "whoami", `{}`, nil)); got != `{"text":"agent://ann"}` {
		t.Error(got)
	}
	if form := <-asked; form.Get("grant_type") != "client_credentials" {
		t.Errorf("%v", form)
	}
}

// URLs that clients could not use are refused.
func TestCheckURL(t *testing.T) {
	for at, ok := range map[string]bool{
		"https://a.example": true, "https://a.example/mcp": true, "http://127.0.0.1:1/x": true, "http://localhost": true,
		"http://[::1]:80/": true,
		"":                 false, "a.example": false, "http://a.example": false, "https://": false, "ftp://a.example": false,
		"https://u:p@a.example": false, "https://a.example?x": false, "https://a.example?": false,
		"https://a.example#f": false, "javascript:alert(1)": false,
	} {
		if _, err := mcp.CheckURL(at); (err == nil) != ok {
			t.Errorf("%q: %v", at, err)
		}
	}
}
