package subjects

import "strconv"

// Owner is the actor of a tenant whose something is.
type Owner struct{ Tenant, Actor string }

// Inbox returns the prefix of the subjects on which the server answers a connection of the owner. Permissions let it
// subscribe to nothing else of that kind.
func (o Owner) Inbox() string { return tokens(inboxPrefix, o.Tenant, o.Actor) }

// InboxOf returns that prefix for a connection of an executor or a dispatcher.
func InboxOf(instance string) string { return tokens(inboxPrefix, instance) }

// Shelf is where large inputs and outputs lie: of an owner, for the executors of a pool or from them.
type Shelf struct {
	Owner
	Pool string
}

// On returns the owner's shelf for a pool.
func (o Owner) On(pool string) Shelf { return Shelf{o, pool} }

// Payload returns the subject of a part of a claim-checked payload, whose SHA-256 is in hex. Its owner and its pool are
// in it, so that permissions say who may store and read it.
func (s Shelf) Payload(sha256 string, part int64) string {
	return part64(tokens(payloadPrefix, s.Tenant, s.Actor)+"."+sha256, part) + "." + Token(s.Pool)
}

// PayloadsOn returns the subjects of all payloads of a pool, whoever owns them.
func PayloadsOn(pool string) string { return payloadPrefix + "*.*.*.*." + Token(pool) }

// PayloadOfNobody returns the subject under which builds before owners were in it stored that part.
func PayloadOfNobody(sha256 string, part int64) string { return part64(payloadPrefix+sha256, part) }

func part64(of string, part int64) string { return of + "." + strconv.FormatInt(part, 10) }

// PayloadsOf returns the filter of all payloads of an actor, or of a tenant where the actor is "". Both are tokens, as
// they stand in subjects.
func PayloadsOf(tenant, actor string) string {
	if actor == "" {
		return payloadPrefix + tenant + ".>"
	}
	return payloadPrefix + tenant + "." + actor + ".>"
}
