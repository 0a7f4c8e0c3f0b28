package subjects

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// Owner is the actor of a tenant whose something is.
type Owner struct{ Tenant, Actor string }

// Inbox returns the prefix of the subjects on which the server answers a connection of the owner. Permissions let it
// subscribe to nothing else of that kind.
func (o Owner) Inbox() string { return tokens(inboxPrefix, o.Tenant, o.Actor) }

// InboxOf returns that prefix for a connection of an executor or a dispatcher.
func InboxOf(instance string) string { return tokens(inboxPrefix, instance) }

// PayloadOwner is where large inputs and outputs lie: of an owner, for the executors of a pool or from them.
type PayloadOwner struct {
	Owner
	Pool string
}

// On returns the owner's shelf for a pool.
func (o Owner) On(pool string) PayloadOwner { return PayloadOwner{o, pool} }

// Payload returns the subject of a part of a claim-checked payload, whose SHA-256 is in hex. Its owner and its pool are
// in it, so that permissions say who may store and read it.
func (s PayloadOwner) Payload(sha256 string, part int64) string {
	return part64(tokens(payloadPrefix, s.Tenant, s.Actor)+"."+sha256, part) + "." + Token(s.Pool)
}

// PayloadsOn returns the subjects of all payloads of a pool, whoever owns them.
func PayloadsOn(pool string) string { return payloadPrefix + "*.*.*.*." + Token(pool) }

// PayloadPart is the parsed subject of a part of a payload. Tenant, actor and pool are tokens, as they stand in
// subjects.
type PayloadPart struct {
	Tenant, Actor, SHA256 string
	Part                  int64
	Pool                  string
}

// The subjects on which clients store parts, and where dispatchers hear them: a server with accounts brings each
// message of a client there, and takes none of it into the stream itself.
const (
	PartsSent     = payloadPrefix + "*.*.*.*.*"
	PartsReceived = partPrefix + "*.*.*.*.*"
)

// ParsePayload parses a subject of [PayloadOwner.Payload], or the one of [PartsReceived] that stands for it. It accepts
// nothing else: each token is one that [Token] makes, the SHA-256 is 64 lower-case hex digits, and the part a decimal
// number.
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

// Subject returns the subject of [PayloadOwner.Payload] that the part is stored under.
func (p PayloadPart) Subject() string {
	return part64(payloadPrefix+p.Tenant+"."+p.Actor+"."+p.SHA256, p.Part) + "." + p.Pool
}

// PoolOf returns the pool, as a token, in a subject of a part of a payload or of chunks; "" where it has none. ok is
// false for any other subject.
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

// PayloadOfNobody returns the subject under which builds before owners were in it stored that part.
func PayloadOfNobody(sha256 string, part int64) string { return part64(payloadPrefix+sha256, part) }

func part64(of string, part int64) string { return of + "." + strconv.FormatInt(part, 10) }

// PayloadsOf returns the filter of all that lies below a tenant and an actor, or below a tenant where the actor is "".
// Both are tokens, as they stand in subjects.
func PayloadsOf(tenant, actor string) string {
	if actor == "" {
		return payloadPrefix + tenant + ".>"
	}
	return payloadPrefix + tenant + "." + actor + ".>"
}

// PartsOf returns the subjects of [PartsSent] of an actor, or of each actor of a tenant where the actor is "". Both are
// tokens.
func PartsOf(tenant, actor string) string {
	if actor == "" {
		actor = "*"
	}
	return payloadPrefix + tenant + "." + actor + ".*.*.*"
}
