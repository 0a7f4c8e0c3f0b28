package subjects

import "strings"

// The control bucket holds what dispatchers agree on beside calls: keys of tokens, and which tokens are not good any
// more. Nobody but dispatchers reaches it.
const (
	ControlStream = "KV_control"
	ControlAll    = controlPrefix + ">"

	controlPrefix = "$KV.control."
	keysPrefix    = controlPrefix + "key."
	revokedPrefix = controlPrefix + "revoked."
	barredPrefix  = controlPrefix + "barred."
	issuedPrefix  = controlPrefix + "issued."
)

// Filters of the entries of the control bucket.
const (
	KeysAll          = keysPrefix + "*"
	RevokedAll       = revokedPrefix + "*"
	RevokedActorsAll = barredPrefix + "*.*"
	IssuedAll        = issuedPrefix + "*"
)

// SigningKey returns the subject of a key that tokens are signed with.
func SigningKey(kid string) string { return tokens(keysPrefix, kid) }

// ParseSigningKey is the inverse of [SigningKey]; ok is false for other subjects.
func ParseSigningKey(subject string) (kid string, ok bool) {
	return strings.CutPrefix(subject, keysPrefix)
}

// Revoked returns the subject of the entry that revokes a family of tokens.
func Revoked(family string) string { return tokens(revokedPrefix, family) }

// ParseRevoked is the inverse of [Revoked]; ok is false for other subjects.
func ParseRevoked(subject string) (family string, ok bool) {
	return strings.CutPrefix(subject, revokedPrefix)
}

// RevokedActor returns the subject of the entry that revokes the tokens that an actor has by then.
func RevokedActor(tenant, actor string) string { return tokens(barredPrefix, tenant, actor) }

// IsRevokedActor reports whether a subject is one of [RevokedActor].
func IsRevokedActor(subject string) bool { return strings.HasPrefix(subject, barredPrefix) }

// Issued returns the subject of the entry that lists a family of tokens.
func Issued(family string) string { return tokens(issuedPrefix, family) }
