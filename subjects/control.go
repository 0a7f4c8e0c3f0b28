package subjects

import "strings"

// The stream of the control bucket and its subjects. The bucket holds the signing keys of tokens, the issued and
// revoked credentials, and the safety locks. Only dispatchers have access to it.
const (
	ControlStream = "KV_control"
	ControlAll    = controlPrefix + ">"

	controlPrefix = "$KV.control."
	keysPrefix    = controlPrefix + "key."
	revokedPrefix = controlPrefix + "revoked."
	barredPrefix  = controlPrefix + "barred."
	issuedPrefix  = controlPrefix + "issued."
)

// Locks is the subject of the one entry of the control bucket that holds all safety locks in force.
const Locks = controlPrefix + "locks"

// Repairs is the subject of the one entry of the control bucket that lists the calls whose logs are damaged.
const Repairs = controlPrefix + "repairs"

// CopiesStream is the stream of the second copies of keys, revocations, the locks and the policy in force.
const CopiesStream = "KV_copies"

const (
	bucketPrefix = "$KV."
	copiesPrefix = bucketPrefix + "copies."
)

// Copy returns the subject of the copy of an entry of a bucket, or of those of all entries that match a filter.
func Copy(entry string) string {
	return copiesPrefix + strings.TrimPrefix(entry, bucketPrefix)
}

// CopyOf is the inverse of [Copy].
func CopyOf(subject string) (entry string) {
	return bucketPrefix + strings.TrimPrefix(subject, copiesPrefix)
}

// Filters of the kinds of entries in the control bucket.
const (
	KeysAll          = keysPrefix + "*"
	RevokedAll       = revokedPrefix + "*"
	RevokedActorsAll = barredPrefix + "*.*"
	IssuedAll        = issuedPrefix + "*"
)

// SigningKey returns the subject of the signing key with the id kid.
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

// RevokedActor returns the subject of the entry that revokes all tokens of an actor that were issued before it.
func RevokedActor(tenant, actor string) string { return tokens(barredPrefix, tenant, actor) }

// IsRevokedActor reports whether a subject is one of [RevokedActor].
func IsRevokedActor(subject string) bool { return strings.HasPrefix(subject, barredPrefix) }

// ParseRevokedActor is the inverse of [RevokedActor]; ok is false for other subjects.
func ParseRevokedActor(subject string) (tenant, actor string, ok bool) {
	names, ok := strings.CutPrefix(subject, barredPrefix)
	tenant, actor, _ = strings.Cut(names, ".")
	tenant, err := ParseToken(tenant)
	actor, err2 := ParseToken(actor)
	return tenant, actor, ok && err == nil && err2 == nil
}

// Issued returns the subject of the entry that describes an issued family of tokens.
func Issued(family string) string { return tokens(issuedPrefix, family) }
