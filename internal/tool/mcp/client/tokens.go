package client

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Tokens returns access tokens of OAuth.
type Tokens interface {
	// Token returns an access token. refused is the token that the server has refused, or "". Token renews it if
	// necessary.
	Token(ctx context.Context, refused string) (string, error)
	// Refused returns the error for a server that has refused a token and the next one.
	Refused() error
}

// tokenTime is the longest time of one request for a token.
const tokenTime = 30 * time.Second

// NewTokenClient returns the HTTP client for the requests to the authorization server of a server with a URL. It
// reaches the host of that URL and hosts with public addresses. It sends no body to the target of a redirect.
func NewTokenClient(server string) *http.Client {
	transport := newTransport(server)
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport, Timeout: tokenTime, CheckRedirect: direct}
}

// maxRedirects is the number of redirects that NewTokenClient follows.
const maxRedirects = 5

// direct follows a few redirects of requests without a body: to HTTPS, and from HTTP on the same host.
func direct(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	plain := req.URL.Scheme != "https" && (from.Scheme == "https" || req.URL.Host != from.Host)
	if plain || len(via) > maxRedirects || via[0].Method != http.MethodGet {
		return http.ErrUseLastResponse
	}
	return nil
}

// authorized sends a request with an access token. If the server refuses the token, it sends the request once more,
// with another one: the server has not begun the request. ctx is for requests for tokens.
func (g *httpGuard) authorized(ctx context.Context, req *http.Request, f *flight) (*http.Response, error) {
	if g.tokens == nil {
		return g.inner.RoundTrip(req)
	}
	refused := ""
	for range 2 {
		token, err := g.tokens.Token(ctx, refused)
		if err != nil {
			return nil, err
		}
		again := req.Clone(req.Context())
		again.Header.Set("Authorization", "Bearer "+token)
		if req.GetBody != nil {
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		resp, err := g.inner.RoundTrip(again)
		if err != nil || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal) // so that the connection can be used again
		_ = resp.Body.Close()
		f.sent.Store(false)
		refused = token
	}
	return nil, g.tokens.Refused()
}
