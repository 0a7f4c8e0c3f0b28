package oauth

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// LoginOptions configure a login.
type LoginOptions struct {
	ClientID     string // of a registered client; "" registers one
	ClientSecret string // of that client, if it has one
	Port         int    // of the redirect address on this host; 0 is any
	// Show is called with the address where the operator logs in.
	Show func(address string)
	// Paste has the address to which the browser of another host was sent, on a line; nil has none.
	Paste io.Reader
	// Client sends the requests.
	Client *http.Client
}

// loginTime is how long an operator has to log in.
const loginTime = 10 * time.Minute

// callbackPath is the path of the redirect address.
const callbackPath = "/callback"

// Login gets tokens for the MCP server at an address: by an authorization code with PKCE, of a client that it registers
// unless o names one. The operator logs in with a browser, which comes back to an address of this host. Login returns
// an error if the server wants no token.
func Login(ctx context.Context, server string, o LoginOptions) (g Grant, err error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	challenge, err := challenged(ctx, server, o.Client)
	if err != nil {
		return g, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.Port))
	if err != nil {
		return g, err
	}
	l := &login{options: o, redirect: "http://" + listener.Addr().String() + callbackPath, back: make(chan url.Values, 1)}
	web := &http.Server{Handler: http.HandlerFunc(l.serve), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(listener)
	}()
	defer func() {
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // of the page that is being sent
		defer cancel()
		if web.Shutdown(finish) != nil {
			_ = web.Close()
		}
		<-served
	}()
	return l.authorize(ctx, server, challenge)
}

// login is a login in progress.
type login struct {
	options  LoginOptions
	redirect string
	asked    atomic.Pointer[url.Values] // the parameters of the address where the operator logs in
	back     chan url.Values            // the parameters with which the browser came back
}

// challenged returns the answer of a server to a request without a token.
func challenged(ctx context.Context, server string, client *http.Client) (*http.Response, error) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusUnauthorized {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the server asks for no login: it answers HTTP status %d without one", resp.StatusCode)
	}
	return resp, nil
}

func (l *login) authorize(ctx context.Context, server string, challenge *http.Response) (g Grant, err error) {
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: l.redirect, RequestRefreshToken: true, AcceptUnadvertisedIss: true, Client: l.options.Client,
		AuthorizationCodeFetcher: l.fetch,
		NewTokenSource: func(_ context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			g = newGrant(server, l.asked.Load().Get("resource"), c, t, time.Now())
			return oauth2.StaticTokenSource(t), nil
		},
	}
	if id := l.options.ClientID; id != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id}
		if secret := l.options.ClientSecret; secret != "" {
			config.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: secret}
		}
	} else {
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName: "Toolbus", RedirectURIs: []string{l.redirect}, TokenEndpointAuthMethod: "none",
				GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
			},
		}
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return g, err
	}
	err = handler.Authorize(ctx, challenge.Request, challenge)
	if err != nil && l.options.ClientID == "" && strings.Contains(err.Error(), "registration") {
		err = fmt.Errorf("%w; register a client there, and name it with --client-id", err)
	}
	return g, discreet(err)
}

// fetch shows the address of the login, and returns the code that the browser brings.
func (l *login) fetch(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	at, err := url.Parse(args.URL)
	if err != nil {
		return nil, err
	}
	if at.Scheme != "https" && at.Scheme != "http" { // a program opens it
		return nil, fmt.Errorf("the address of the login has the scheme %.20q", at.Scheme)
	}
	asked := at.Query()
	if slices.Contains(strings.Fields(asked.Get("scope")), "offline_access") {
		asked.Set("prompt", "consent") // without it there is no refresh token (OpenID Connect Core section 11)
	}
	at.RawQuery = asked.Encode()
	l.asked.Store(&asked)
	l.options.Show(at.String())
	if l.options.Paste != nil {
		go l.pasted(l.options.Paste)
	}
	select {
	case q := <-l.back:
		if code := q.Get("error"); code != "" {
			return nil, fmt.Errorf("the authorization server refused the login: %.80q %.300q", code, q.Get("error_description"))
		}
		if q.Get("code") == "" {
			return nil, errors.New("the address to which the browser was sent has no code")
		}
		return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("nobody logged in: %w", context.Cause(ctx))
	}
}

// serve takes the browser that comes back.
func (l *login) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.URL.Path != callbackPath || r.Method != http.MethodGet || !l.deliver(r.URL.Query()) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "This is not the answer to the login that Toolbus waits for.\n")
		return
	}
	_, _ = io.WriteString(w, "Toolbus has the answer. The terminal shows the result. You can close this page.\n")
}

// deliver takes the parameters of an answer. It reports whether they are of this login: any page that the operator's
// browser shows can send it to the redirect address, but does not know the state.
func (l *login) deliver(q url.Values) bool {
	asked := l.asked.Load()
	if asked == nil || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(asked.Get("state"))) != 1 {
		return false
	}
	select {
	case l.back <- q:
	default: // a second answer
	}
	return true
}

// pasted takes the first line that is the redirect address with the answer.
func (l *login) pasted(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		text := strings.TrimSpace(lines.Text())
		if at, err := url.Parse(text); err == nil && strings.HasPrefix(text, l.redirect+"?") && l.deliver(at.Query()) {
			return
		}
	}
}
