package subjects

import "strconv"

// Owner is the actor of a tenant whose something is.
type Owner struct{ Tenant, Actor string }

// Inbox returns the prefix of the subjects on which the server answers a connection of the owner. Permissions let it
// subscribe to nothing else of that kind.
func (o Owner) Inbox() string { return tokens(inboxPrefix, o.Tenant, o.Actor) }

// InboxOf returns that prefix for a connection of an executor or a dispatcher.
func InboxOf(instance string) string { return tokens(inboxPrefix, instance) }

// Payload returns the subject of a part of a claim-checked payload, whose SHA-256 is in hex. It is its owner's alone,
// so that permissions say who may store and read it.
func (o Owner) Payload(sha256 string, part int64) string {
	return part64(tokens(payloadPrefix, o.Tenant, o.Actor)+"."+sha256, part)
}

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
