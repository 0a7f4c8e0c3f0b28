package mcp

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// MetadataPath is the path of the protected resource metadata (RFC 9728) of the host. For the metadata of an endpoint,
// the path of the endpoint is appended.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Metadata returns the handler of the protected resource metadata (RFC 9728). Register it for [MetadataPath] and the
// paths below. endpoint is the path of [Server.Handler]. Requests need no token. The answer is 404 for any other
// endpoint, and if the gateway needs no tokens.
func (s *Server) Metadata(endpoint string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := s.o.endpoint(r, endpoint)
		switch path := strings.TrimPrefix(r.URL.Path, MetadataPath); {
		case s.callers.client == nil, path != "" && path != endpoint && path != at.Path:
			http.NotFound(w, r)
			return
		case path == "": // the host as a whole
			at.Path = ""
		}
		w.Header().Set("Cache-Control", "no-cache") // without a URL of its own the answer depends on the Host header
		auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
			Resource: at.String(), AuthorizationServers: s.o.AuthorizationServers,
			BearerMethodsSupported: []string{"header"}, ResourceName: "Toolbus",
		}).ServeHTTP(w, r)
	})
}

// endpoint returns the URL that clients know the gateway by: [Options].URL, or the path at the host that r names.
func (o *Options) endpoint(r *http.Request, path string) *url.URL {
	if o.URL != nil {
		at := *o.URL
		return &at
	}
	at := &url.URL{Scheme: "http", Host: r.Host, Path: path}
	if r.TLS != nil {
		at.Scheme = "https"
	}
	return at
}

// challenge returns the header WWW-Authenticate of an answer with the status 401. By RFC 6750 §3 it has no error if the
// request has no token.
func (o *Options) challenge(r *http.Request, why string) string {
	at := o.endpoint(r, r.URL.Path)
	at.Path = MetadataPath + at.Path
	said := fmt.Sprintf("Bearer realm=%q, resource_metadata=%q", "toolbus", at)
	if why != noToken {
		said += fmt.Sprintf(", error=%q, error_description=%q", "invalid_token", strings.ReplaceAll(why, `"`, "'"))
	}
	return said
}

// CheckURL parses the URL of an endpoint or an authorization server. It must be absolute, with https, or with http and
// a host on this machine, and without user, query and fragment.
func CheckURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return nil, fmt.Errorf("%q is not a URL of https, or of http on this machine", text)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%q is not a URL of a host and a path, without user, query and fragment", text)
	}
	return u, nil
}
