package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
)

// TestConfiguredHosts connects to the host of a server's URL, and to no other host without a public address.
func TestConfiguredHosts(t *testing.T) {
	proxy := func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" {
			return nil, errors.New("no proxy")
		}
		return url.Parse("http://10.0.0.1:3128")
	}
	for server, want := range map[string][]string{
		"https://mcp.example.com/mcp": {"10.0.0.1", "mcp.example.com"},
		"http://mcp.example.com:8080": {"mcp.example.com"},
		"http://[fe80::1%25eth0]:80/": {"fe80::1%eth0"},
		"http://%zz":                  nil,
	} {
		if got := configured(server, proxy); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", server, got, want)
		}
	}
	site := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	at := strings.TrimPrefix(site.URL, "http://")
	_, port, _ := strings.Cut(at, ":")
	s, err := reach(t.Context(), Server{URL: site.URL + "/mcp"}, nil, newRouter(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the server knows no session
	conn, err := s.guard.inner.DialContext(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	for _, host := range []string{"127.0.0.2", "localhost", "[::1]", "169.254.169.254"} {
		conn, err := s.guard.inner.DialContext(t.Context(), "tcp", host+":"+port)
		if _, is := errors.AsType[*address.NotPublicError](err); !is {
			t.Errorf("%s: %v, %v", host, conn, err)
		}
	}
}

// TestTokenRedirects holds that requests to an authorization server stay on HTTPS, and that no form follows a redirect.
func TestTokenRedirects(t *testing.T) {
	for _, c := range []struct {
		method, from, to string
		follows          bool
	}{
		{http.MethodGet, "https://a.example/x", "https://b.example/x", true},
		{http.MethodGet, "http://127.0.0.1:1/x", "http://127.0.0.1:1/y", true},
		{http.MethodGet, "http://127.0.0.1:1/x", "https://a.example/y", true},
		{http.MethodGet, "http://127.0.0.1:1/x", "http://127.0.0.1:2/y", false},
		{http.MethodGet, "https://a.example/x", "http://a.example/x", false},
		{http.MethodPost, "https://a.example/x", "https://a.example/y", false},
	} {
		from, to := httptest.NewRequest(c.method, c.from, nil), httptest.NewRequest(http.MethodGet, c.to, nil)
		if err := direct(to, []*http.Request{from}); (err == nil) != c.follows {
			t.Errorf("%s %s to %s: %v", c.method, c.from, c.to, err)
		}
	}
}
