package oauthtest

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is an authorization server, and the server of the resource /mcp that it protects. Set its fields before the
// first request.
type Server struct {
	URL      string        // its own, without a path
	Resource http.Handler  // what an access token opens, below /mcp
	Life     time.Duration // of access tokens, in whole seconds
	Closed   bool          // it registers no clients; the client "known" is registered
	Deny     bool          // the person who is asked for a login refuses it
	LoginAt  string        // where the person logs in, instead of its own page

	mu       sync.Mutex
	clients  map[string][]string // redirect addresses by client
	codes    map[string]url.Values
	refresh  string // the only one that is valid
	used     []string
	access   map[string]time.Time // expiry by token
	revoked  bool
	refuses  bool
	down     bool
	renewals int
	refused  int
	problems []string
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/mcp":
		s.resource(w, r)
	case "/.well-known/oauth-protected-resource/mcp":
		answer(w, http.StatusOK, map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}})
	case "/.well-known/oauth-authorization-server":
		about := map[string]any{
			"issuer": s.URL, "authorization_endpoint": cmp.Or(s.LoginAt, s.URL+"/authorize"), "token_endpoint": s.URL + "/token",
			"scopes_supported":         []string{"offline_access"},
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		}
		if !s.Closed {
			about["registration_endpoint"] = s.URL + "/register"
		}
		answer(w, http.StatusOK, about)
	case "/register":
		s.register(w, r)
	case "/authorize":
		s.authorize(w, r)
	case "/token":
		s.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// resource lets requests with a valid access token through.
func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	expiry, known := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	ok := known && time.Now().Before(expiry) && !s.revoked && !s.refuses
	if !ok {
		s.refused++
	}
	s.mu.Unlock()
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.Resource.ServeHTTP(w, r)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	if s.Closed || json.NewDecoder(r.Body).Decode(&asked) != nil {
		answer(w, http.StatusForbidden, map[string]any{"error": "access_denied"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		s.clients = map[string][]string{}
	}
	id := rand.Text()
	s.clients[id] = asked.RedirectURIs
	answer(w, http.StatusCreated, map[string]any{
		"client_id": id, "redirect_uris": asked.RedirectURIs, "token_endpoint_auth_method": "none",
	})
}

// authorize is the page of the login. It needs no clicks.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	known := slices.Contains(s.clients[q.Get("client_id")], q.Get("redirect_uri")) || q.Get("client_id") == "known"
	if err != nil || !known || q.Get("code_challenge_method") != "S256" || q.Get("resource") != s.URL+"/mcp" ||
		q.Get("prompt") != "consent" { // which offline_access needs
		s.problems = append(s.problems, "login with "+r.URL.RawQuery)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	back := url.Values{"state": q["state"], "code": {rand.Text()}}
	if s.codes == nil {
		s.codes = map[string]url.Values{}
	}
	s.codes[back.Get("code")] = q
	if s.Deny {
		back = url.Values{"state": q["state"], "error": {"access_denied"}, "error_description": {"not today"}}
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.FormValue("client_id") == "" { // its clients have no secrets, and send their id in the body
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	if r.FormValue("resource") != s.URL+"/mcp" {
		s.problems = append(s.problems, "a token for another resource: "+r.FormValue("resource"))
	}
	if !s.granted(r) {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	answer(w, http.StatusOK, s.issue())
}

// granted reports whether the request has a valid code or refresh token, and uses it up.
func (s *Server) granted(r *http.Request) bool {
	if r.FormValue("grant_type") == "refresh_token" {
		token := r.FormValue("refresh_token")
		if slices.Contains(s.used, token) {
			s.problems = append(s.problems, "a refresh token was used twice")
			s.revoked = true
		}
		if s.revoked || token != s.refresh {
			return false
		}
		s.used = append(s.used, token)
		s.renewals++
		return true
	}
	asked, ok := s.codes[r.FormValue("code")]
	delete(s.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	return ok && asked.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:]) &&
		asked.Get("client_id") == r.FormValue("client_id") && asked.Get("redirect_uri") == r.FormValue("redirect_uri")
}

func (s *Server) issue() map[string]any {
	if s.access == nil {
		s.access = map[string]time.Time{}
	}
	token := rand.Text()
	s.access[token] = time.Now().Add(s.Life)
	s.refresh = rand.Text()
	return map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(s.Life / time.Second), "refresh_token": s.refresh,
	}
}

// Browse does what a browser does with the address of a login.
func Browse(address string) error {
	browser := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := browser.Get(address)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Revoke ends the grant.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = true
}

// Refuse makes the resource take no token, or take them again.
func (s *Server) Refuse(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = is
}

// Forget ends the access tokens, without a change of the grant.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// Down makes the token endpoint fail, or work again.
func (s *Server) Down(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = is
}

// Counts returns the numbers of renewals, and of requests without a valid access token.
func (s *Server) Counts() (renewals, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewals, s.refused
}

// Problems returns what clients did wrong.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// Issue returns tokens of a login.
func (s *Server) Issue() (access, refresh string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issue()
	for access = range s.access {
	}
	return access, s.refresh
}
