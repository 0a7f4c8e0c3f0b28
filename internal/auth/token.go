package auth

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Reasons why a token is not accepted. Their texts contain nothing of the token or of the keys.
var (
	ErrMalformed    = errors.New("the token is malformed")
	ErrUnknownKey   = errors.New("the token is signed with a key that is unknown, or not used any more")
	ErrSignature    = errors.New("the signature of the token is not that of its key")
	ErrElsewhere    = errors.New("the token is of another deployment")
	ErrNotYet       = errors.New("the token is not good yet")
	ErrExpired      = errors.New("the token has expired")
	ErrRevoked      = errors.New("the token was revoked")
	ErrNotReady     = errors.New("it is not known yet which tokens are good")
	ErrNotRenewable = errors.New("the token cannot be renewed any more")
)

// issuer is the claim "iss" of all tokens.
const issuer = "toolbus"

// leeway is how far in the future the time of issue of a token may be, because clocks of processes differ. There is no
// leeway for the expiry.
const leeway = 30 * time.Second

// claims are the claims of a token that are not registered claims of JWT.
type claims struct {
	Tenant string   `json:"tb_tenant"`
	Role   Role     `json:"tb_role"`
	Scope  string   `json:"scope,omitempty"`
	Roles  []string `json:"tb_role_ids,omitempty"`
	Run    string   `json:"tb_run,omitempty"`
	Lane   string   `json:"tb_lane,omitempty"`
	Pool   string   `json:"tb_pool,omitempty"`
	Family string   `json:"tb_family"`
	Chain  []string `json:"tb_chain,omitempty"`
	Origin Role     `json:"tb_origin,omitempty"`
	Renew  int64    `json:"tb_renew,omitempty"` // seconds
}

// Signer signs the tokens of a deployment. It is safe for concurrent use.
type Signer struct {
	deployment, kid string
	signer          jose.Signer
}

// NewSigner returns a signer with a private key. Verifiers find its public key by the key id kid.
func NewSigner(deployment, kid string, key ed25519.PrivateKey) (*Signer, error) {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", kid, err)
	}
	return &Signer{deployment, kid, s}, nil
}

// Mint returns a signed token with the content p. It returns an error if p is not valid, see [Principal.Check], or if
// the token is longer than [MaxToken].
func (s *Signer) Mint(p Principal) (string, error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	registered := jwt.Claims{
		Issuer: issuer, Audience: jwt.Audience{s.deployment}, Subject: p.Actor, ID: p.ID,
		IssuedAt: jwt.NewNumericDate(p.Issued), NotBefore: jwt.NewNumericDate(p.Issued),
		Expiry: jwt.NewNumericDate(p.Expires),
	}
	own := claims{
		Tenant: p.Tenant, Role: p.Role, Scope: strings.Join(sorted(p.Scopes), " "), Roles: sorted(p.RoleIDs),
		Run: p.Run, Lane: p.Lane, Pool: p.Pool, Family: p.Family, Chain: p.Chain, Origin: p.Origin,
	}
	if !p.RenewUntil.IsZero() {
		own.Renew = p.RenewUntil.Unix()
	}
	token, err := jwt.Signed(s.signer).Claims(registered).Claims(own).Serialize()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if len(token) > MaxToken {
		return "", fmt.Errorf("the token would be %d bytes, at most %d: give it fewer or shorter scopes and roles",
			len(token), MaxToken)
	}
	return token, nil
}

// Keyring holds the public keys of a deployment that verify tokens. The zero value has no keys. It is safe for
// concurrent use.
type Keyring struct {
	deployment string
	keys       atomic.Pointer[map[string]Key]
}

// Key is the public half of a signing key. From Until on, if that is not zero, tokens that the key signed count as
// expired. They can still be renewed, so a process that was offline during a rotation of keys needs no new credential.
type Key struct {
	Public ed25519.PublicKey
	Until  time.Time
}

// NewKeyring returns the keyring of a deployment.
func NewKeyring(deployment string, keys map[string]Key) *Keyring {
	k := &Keyring{deployment: deployment}
	k.Replace(keys)
	return k
}

// Replace replaces all keys of the keyring. The map key is the key id. Replace copies the map.
func (k *Keyring) Replace(keys map[string]Key) {
	keys = maps.Clone(keys)
	k.keys.Store(&keys)
}

// Has reports whether the keyring has a key.
func (k *Keyring) Has(kid string) bool {
	_, ok := k.key(kid)
	return ok
}

func (k *Keyring) key(kid string) (Key, bool) {
	keys := k.keys.Load()
	if keys == nil {
		return Key{}, false
	}
	key, ok := (*keys)[kid]
	return key, ok
}

// Verify returns the content of a token that a key of the keyring signed. It also returns the content together with
// [ErrExpired] and [ErrNotYet], but not with other errors.
func (k *Keyring) Verify(token string, now time.Time) (Principal, error) {
	p, key, err := k.read(token)
	if err != nil {
		return Principal{}, err
	}
	return p, p.timely(now, key)
}

// timely compares now with the times of a token and of the key that signed it. It returns [ErrNotYet], [ErrExpired] or
// nil.
func (p *Principal) timely(now time.Time, by Key) error {
	switch {
	case now.Add(leeway).Before(p.Issued):
		return ErrNotYet
	case !now.Before(p.Expires), !by.Until.IsZero() && !now.Before(by.Until):
		return ErrExpired
	}
	return nil
}

// read returns the content of a token and the key that signed it. It does not compare times.
func (k *Keyring) read(token string) (p Principal, key Key, err error) {
	if len(token) > MaxToken {
		return p, key, ErrMalformed
	}
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(t.Headers) != 1 {
		return p, key, ErrMalformed
	}
	kid := t.Headers[0].KeyID
	key, ok := k.key(kid)
	if !ok {
		return p, key, ErrUnknownKey
	}
	var registered jwt.Claims
	var own claims
	if err := t.Claims(key.Public, &registered, &own); errors.Is(err, jose.ErrCryptoFailure) {
		return p, key, ErrSignature
	} else if err != nil {
		return p, key, ErrMalformed
	}
	p = principal(registered, own, kid)
	switch {
	case registered.Issuer != issuer || len(registered.Audience) != 1 || registered.Audience[0] != k.deployment:
		return Principal{}, key, ErrElsewhere
	case registered.Expiry == nil || registered.IssuedAt == nil || registered.NotBefore.Time().After(p.Issued) ||
		p.Check() != nil:
		return Principal{}, key, ErrMalformed
	}
	return p, key, nil
}

func principal(registered jwt.Claims, own claims, kid string) Principal {
	p := Principal{
		Tenant: own.Tenant, Actor: registered.Subject, Role: own.Role, Scopes: strings.Fields(own.Scope),
		RoleIDs: own.Roles, Run: own.Run, Lane: own.Lane, Pool: own.Pool, ID: registered.ID, Family: own.Family,
		Chain: own.Chain, Origin: own.Origin, Issued: registered.IssuedAt.Time(),
		Expires: registered.Expiry.Time(), KeyID: kid,
	}
	if own.Renew != 0 {
		p.RenewUntil = time.Unix(own.Renew, 0)
	}
	return p
}

// Inspect returns the content of a token without verifying it. It is for the holder of a token, not for a recipient.
// The only error is [ErrMalformed].
func Inspect(token string) (Principal, error) {
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(token) > MaxToken || len(t.Headers) != 1 {
		return Principal{}, ErrMalformed
	}
	var registered jwt.Claims
	var own claims
	if err := t.UnsafeClaimsWithoutVerification(&registered, &own); err != nil {
		return Principal{}, ErrMalformed
	}
	return principal(registered, own, t.Headers[0].KeyID), nil
}
