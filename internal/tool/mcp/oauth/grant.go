package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"
)

// keyBytes is the size of a key in bytes, for AES-256.
const keyBytes = 32

// Grant is the result of a login. Its file is as secret as a credential.
type Grant struct {
	Key          []byte           `json:"key"` // seals the entry on the bus
	Server       string           `json:"server"`
	Resource     string           `json:"resource"` // parameter of token requests (RFC 8707)
	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitzero"`
	TokenURL     string           `json:"token_url"`
	AuthStyle    oauth2.AuthStyle `json:"auth_style,omitzero"`
	First        Tokens           `json:"tokens"` // of the login, until the entry on the bus exists
}

// Tokens are an access token, and the refresh token for the next one.
type Tokens struct {
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitzero"`
	Issued  time.Time `json:"issued"`
	Expiry  time.Time `json:"expiry,omitzero"` // zero if the server did not name one
}

// newGrant returns a grant with a new key.
func newGrant(server, resource string, c *oauth2.Config, t *oauth2.Token, issued time.Time) Grant {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	g := Grant{
		Key: key, Server: server, Resource: resource, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
		TokenURL: c.Endpoint.TokenURL, AuthStyle: c.Endpoint.AuthStyle, First: tokensOf(t, issued),
	}
	if g.ClientSecret == "" {
		g.AuthStyle = oauth2.AuthStyleInParams // a public client sends only its id
	}
	return g
}

// Token returns the access token, unless the server has refused it. It does not renew it.
func (t Tokens) Token(_ context.Context, refused string) (string, error) {
	if t.Access == refused {
		return "", t.Refused()
	}
	return t.Access, nil
}

// Refused returns the error for a server that refuses the token.
func (Tokens) Refused() error { return errors.New("the server refuses the token of the login") }

func tokensOf(t *oauth2.Token, issued time.Time) Tokens {
	return Tokens{Access: t.AccessToken, Refresh: t.RefreshToken, Issued: issued, Expiry: t.Expiry}
}

// ID returns the name of the entry on the bus. Only holders of the file know it, and it does not disclose the key.
func (g Grant) ID() string {
	sum := sha256.Sum256(append([]byte("toolbus oauth entry\x00"), g.Key...))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))
}

// Encode returns the content of the file of a grant.
func (g Grant) Encode() ([]byte, error) {
	raw, err := json.Marshal(g, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(raw, '\n'), err
}

// maxFile is the largest file of a grant, in bytes.
const maxFile = 256 << 10

// ReadGrant reads the file of a grant.
func ReadGrant(file string) (g Grant, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return g, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return g, fmt.Errorf("%s is not a file of at most %d bytes", file, maxFile)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return g, err
	}
	if json.Unmarshal(raw, &g) != nil || len(g.Key) != keyBytes || g.TokenURL == "" { // the error could contain a secret
		return g, errors.New(file + " is not the file of a login: " + again(""))
	}
	return g, nil
}

// again returns what an operator must do to log in again at the server with a name, which may be "". It does not
// contain the URL, because callers see it.
func again(name string) string {
	if name != "" {
		name = "--name " + name + " "
	}
	return "log in again with `toolbus tools import-mcp --login " + name + "URL`, then give the new file to the executors"
}

// usable reports whether the access token can be used at a time.
func (t Tokens) usable(now time.Time) bool { return t.Expiry.IsZero() || now.Before(t.Expiry) }

// Bounds of the time before the expiry of a token at which it is renewed.
const (
	maxAhead = time.Minute
	ahead    = 4 // a quarter of its life
)

// due reports whether the access token is to be renewed.
func (t Tokens) due(now time.Time) bool {
	if t.Expiry.IsZero() {
		return false
	}
	return !now.Before(t.Expiry.Add(-min(maxAhead, t.Expiry.Sub(t.Issued)/ahead)))
}

// tooYoung is the longest time after its issue at which a token that the server refuses is not renewed: another token
// would be refused as well.
const tooYoung = 5 * time.Second

// young reports whether a refused token was issued so recently that another one would not help.
func (t Tokens) young(now time.Time) bool {
	limit := tooYoung
	if !t.Expiry.IsZero() {
		limit = min(limit, t.Expiry.Sub(t.Issued)/2)
	}
	age := now.Sub(t.Issued) // below 0 by the clock of another executor
	return age >= 0 && age < limit
}
