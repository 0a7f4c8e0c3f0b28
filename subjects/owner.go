package subjects

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// Owner identifies the owner of calls, payloads and connections: an actor of a tenant.
type Owner struct{ Tenant, Actor string }

// Inbox returns the inbox prefix of the connections of the owner (nats.CustomInboxPrefix). Their permissions allow no
// other inbox.
func (o Owner) Inbox() string { return tokens(inboxPrefix, o.Tenant, o.Actor) }

// InboxOf returns the inbox prefix of the connection of an executor or a dispatcher.
func InboxOf(instance string) string { return tokens(inboxPrefix, instance) }

// PayloadOwner is the place of large inputs and outputs in the payload store: an owner, and the pool whose executors
// read the inputs and write the outputs.
type PayloadOwner struct {
	Owner
	Pool string
}

// On returns the PayloadOwner of o for a pool.
func (o Owner) On(pool string) PayloadOwner { return PayloadOwner{o, pool} }

// Payload returns the subject of a part of a payload. sha256 is the hash of the whole payload in hex. The subject holds
// the owner and the pool, so that server permissions can restrict who stores and reads it.
func (s PayloadOwner) Payload(sha256 string, part int64) string {
	return part64(tokens(payloadPrefix, s.Tenant, s.Actor)+"."+sha256, part) + "." + Token(s.Pool)
}

// PayloadsOn returns the subject filter of the payloads of a pool, of all owners.
func PayloadsOn(pool string) string { return payloadPrefix + "*.*.*.*." + Token(pool) }

// PayloadPart is the parsed subject of a part of a payload. Tenant, Actor and Pool are encoded tokens.
type PayloadPart struct {
	Tenant, Actor, SHA256 string
	Part                  int64
	Pool                  string
}

// PartsSent is the subject filter of the parts that clients publish. With accounts, the server maps each of these
// messages to a subject of PartsReceived, on which dispatchers receive and store them; no stream takes them directly.
const (
	PartsSent     = payloadPrefix + "*.*.*.*.*"
	PartsReceived = partPrefix + "*.*.*.*.*"
)

// ParsePayload parses a subject of [PayloadOwner.Payload], or the corresponding subject of [PartsReceived]. It refuses
// any other subject: names must be encoded by [Token], the SHA-256 must be 64 lower-case hex digits, and the part must
// be a decimal number.
func ParsePayload(subject string) (p PayloadPart, err error) {
	rest, ok := strings.CutPrefix(subject, payloadPrefix)
	if !ok {
		rest, ok = strings.CutPrefix(subject, partPrefix)
	}
	t := strings.Split(rest, ".")
	if !ok || len(t) != 5 {
		return p, fmt.Errorf("%w: %.300q", errSubject, subject)
	}
	for _, token := range []string{t[0], t[1], t[4]} {
		if _, err := name(token); err != nil {
			return p, fmt.Errorf("%w: %.300q: %w", errSubject, subject, err)
		}
	}
	part, err := strconv.ParseInt(t[3], 10, 64)
	if len(t[2]) != sha256.Size*2 || strings.Trim(t[2], hexDigits) != "" || err != nil || part < 0 ||
		strconv.FormatInt(part, 10) != t[3] {
		return p, fmt.Errorf("%w: %.300q", errSubject, subject)
	}
	return PayloadPart{Tenant: t[0], Actor: t[1], SHA256: t[2], Part: part, Pool: t[4]}, nil
}

// Subject returns the subject under which the part is stored, see [PayloadOwner.Payload].
func (p PayloadPart) Subject() string {
	return part64(payloadPrefix+p.Tenant+"."+p.Actor+"."+p.SHA256, p.Part) + "." + p.Pool
}

// PoolOf returns the encoded pool in the subject of a part of a payload or of chunks, and "" if the subject has no
// pool. ok is false for any other subject.
func PoolOf(subject string) (pool string, ok bool) {
	if p, err := ParsePayload(subject); err == nil {
		return p.Pool, true
	}
	if _, err := ParseChunk(subject); err != nil {
		return "", false
	}
	if t := strings.Split(subject, "."); len(t) == strings.Count(ChunksOn(""), ".")+1 {
		return t[len(t)-1], true
	}
	return "", true
}

func part64(of string, part int64) string { return of + "." + strconv.FormatInt(part, 10) }

// PayloadsOf returns the subject filter of the payloads of an actor, or of all actors of the tenant if actor is "".
// Both arguments are encoded tokens.
func PayloadsOf(tenant, actor string) string {
	if actor == "" {
		return payloadPrefix + tenant + ".>"
	}
	return payloadPrefix + tenant + "." + actor + ".>"
}

// PartsOf returns the subject filter of the parts of [PartsSent] of an actor, or of all actors of the tenant if actor
// is "". Both arguments are encoded tokens.
func PartsOf(tenant, actor string) string {
	if actor == "" {
		actor = "*"
	}
	return payloadPrefix + tenant + "." + actor + ".*.*.*"
}
