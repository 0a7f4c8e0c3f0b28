package auth

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nats-io/jwt/v2"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// PermissionInputs are the inputs, besides its principal, that determine the permissions of a connection.
type PermissionInputs struct {
	Partitions int      // of the call log; 0 means 1
	Tools      []string // ids of the tools of an executor's pool
	Instance   string   // of an executor, see [Instance]
	Expired    bool     // the token may only be exchanged for a new one
}

// Account returns the NATS account for a connection of p.
func Account(p Principal, f PermissionInputs) string {
	switch {
	case f.Expired:
		return Agents // the token can only be renewed, by a request from this account
	case p.Role == Executor:
		return Exec
	case p.Role == Auditor:
		return Auditors
	}
	return Agents
}

// Permissions returns the subjects on which a connection of p may publish and to which it may subscribe. No other code
// grants permissions to a role. An unknown role gets none.
func Permissions(p Principal, f PermissionInputs) jwt.Permissions {
	if f.Expired {
		return allow(requests(p, func(i operation.Info) bool { return i.Expired }), hears(p))
	}
	switch p.Role { // nobody reads payloads from the stream: see ServiceExports
	case Agent:
		own := subjects.PartsOf(subjects.Token(p.Tenant), subjects.Token(p.Actor))
		return allow(append(asks(p), own), agentHears(p))
	case Gateway:
		tenant, all := subjects.Token(p.Tenant)+".", subjects.PartsOf(subjects.Token(p.Tenant), "")
		return allow(
			[]string{"tb.call." + tenant + "*.*", "tb.svc.*." + tenant + "*", all},
			append(hears(p), "tb.ans."+tenant+">", chunks(tenant)))
	case Operator:
		return allow(asks(p)[1:], hears(p))
	case Auditor:
		publish := asks(p)[1:]
		if p.Has(ScopeAudit) {
			for _, s := range []string{subjects.AuditStream, subjects.SurplusStream, subjects.DeniedStream} {
				publish = append(publish, subjects.DirectGet(s))
			}
		}
		return allow(publish, hears(p))
	case Executor:
		return executor(p, f)
	}
	return jwt.Permissions{Pub: jwt.Permission{Deny: []string{">"}}, Sub: jwt.Permission{Deny: []string{">"}}}
}

// allow permits the listed subjects. No list may be empty: the server takes an empty list as permission for all
// subjects.
func allow(publish, subscribe []string) jwt.Permissions {
	return jwt.Permissions{Pub: jwt.Permission{Allow: publish}, Sub: jwt.Permission{Allow: subscribe}}
}

// caller returns the part of a subject that names tenant and actor, with a dot at its end.
func caller(p Principal) string {
	return subjects.Token(p.Tenant) + "." + subjects.Token(p.Actor) + "."
}

// asks returns the subjects of the calls and of the service requests of an actor, in this order.
func asks(p Principal) []string {
	return []string{"tb.call." + caller(p) + "*", "tb.svc.*." + strings.TrimSuffix(caller(p), ".")}
}

// requests returns the subjects of the requests of an actor for some operations of the service.
func requests(p Principal, some func(operation.Info) bool) (all []string) {
	for _, i := range operation.Table() {
		if some(i) {
			all = append(all, i.Subject(p.Tenant, p.Actor))
		}
	}
	return all
}

// hears returns the subjects on which dispatchers, executors and the server answer an actor.
func hears(p Principal) []string {
	return []string{p.Answers() + ">", p.Inbox() + ".>"}
}

// agentHears returns the subjects to which an agent may subscribe. They include the chunks of the calls of its actor,
// unless its token is bound: subjects of chunks name neither run nor scopes, so a client with a bound token requests
// its chunks from dispatchers.
func agentHears(p Principal) []string {
	if p.Bound() {
		return hears(p)
	}
	return append(hears(p), chunks(caller(p)))
}

func chunks(of string) string { return "tb.chunk." + of + ">" }

// executor returns the permissions of an instance of an executor: for the work of its pool, and for subjects that name
// the instance.
func executor(p Principal, f PermissionInputs) jwt.Permissions {
	publish := slices.Concat([]string{
		subjects.PayloadsOn(p.Pool), subjects.ChunksOn(p.Pool), "tb.ans.>",
		subjects.PoolSubject(p.Pool, f.Instance),
		"tb.exe.*." + subjects.Token(p.Pool) + "." + subjects.Token(f.Instance),
		"tb.exe.heard." + subjects.Token(p.Pool) + "." + subjects.Token(f.Instance) + ".*",
	}, requests(p, func(i operation.Info) bool { return i.Permits(Executor) }))
	for part := range subjects.Partition(max(1, f.Partitions)) {
		for _, queue := range subjects.Queues() {
			publish = append(publish, part.NextWork(p.Pool, queue), part.Acks(p.Pool, queue))
		}
		for _, tool := range f.Tools {
			publish = append(publish, part.Written(tool, f.Instance)...)
		}
	}
	return allow(publish,
		append(hears(p), subjects.InboxOf(f.Instance)+".>", subjects.ExecutorAnswers(p.Pool, f.Instance)+"*",
			subjects.KillWildcard, subjects.LocateWildcard))
}

// Entitled reports whether a connection with the token may publish on a subject, once the token is renewed if it has
// expired. It does not verify the token. If the server nevertheless refuses a message on that subject, the connection
// was opened with an expired token, and is opened again after the renewal.
func Entitled(token, subject string) bool {
	says, err := Inspect(token)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(Permissions(says, PermissionInputs{}).Pub.Allow, func(allowed string) bool {
		return jwt.Subject(subject).IsContainedIn(jwt.Subject(allowed))
	})
}

// CallPermissions checks whether the token of a client permits calls. It caches the last permitted token, because
// parsing a token takes longer than most other steps of a call. The zero value is ready to use. It is safe for
// concurrent use.
type CallPermissions struct{ with atomic.Pointer[string] }

// May refuses a call on subject if the server would refuse its message. held returns the current token. If held is nil,
// there are no tokens and May permits all calls.
func (c *CallPermissions) May(held func() string, subject string) *envelope.Error {
	if held == nil {
		return nil
	}
	token := held()
	if with := c.with.Load(); with != nil && *with == token {
		return nil
	}
	if Entitled(token, subject) {
		c.with.Store(&token)
		return nil
	}
	return noCall(token, subject)
}

// noCall returns the refusal of a call on a subject that the token does not cover.
func noCall(token, subject string) *envelope.Error {
	const issue = "`toolbus credentials issue --actor agent://NAME` makes one"
	says, err := Inspect(token)
	tenant, actor, _ := subjects.CallerTokens(subject)
	if err == nil && says.Role == Agent && !isOf(&says, tenant, actor) {
		tenant, _ = subjects.ParseToken(tenant) // the client has made them
		actor, _ = subjects.ParseToken(actor)
		return envelope.NewError(envelope.CodeIdentity, fmt.Sprintf(
			"the token is of %q in tenant %q, and the client of %q in tenant %q", says.Actor, says.Tenant, actor, tenant)).
			WithFix("leave tenant and actor of the client out, so that they are those of the token, or use another token: " +
				issue)
	}
	return envelope.NewError(envelope.CodeForbidden, "calls: not for the role of this token").
		WithFix("use the token of an agent: " + issue + ". That of an operator calls as the agent that --actor names")
}
