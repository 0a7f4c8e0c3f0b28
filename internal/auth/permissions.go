package auth

import (
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
	// OlderBuilds adds the permissions that clients and executors of build f16d274 need: a bound token may subscribe to
	// all answers and chunks of its actor, and connections may read payloads, and executors chunks of their pool, directly
	// from the streams.
	OlderBuilds bool
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
		return allow(requests(p, func(i operation.Info) bool { return i.Expired }), hears(p, f))
	}
	switch p.Role {
	case Agent:
		own := subjects.PartsOf(subjects.Token(p.Tenant), subjects.Token(p.Actor))
		return allow(append(asks(p), payloads(own, f)...), agentHears(p, f))
	case Gateway:
		tenant, all := subjects.Token(p.Tenant)+".", subjects.PartsOf(subjects.Token(p.Tenant), "")
		return allow(
			append([]string{"tb.call." + tenant + "*.*", "tb.svc.*." + tenant + "*"}, payloads(all, f)...),
			append(hears(p, f), "tb.ans."+tenant+">", chunks(tenant)))
	case Operator:
		return allow(asks(p)[1:], hears(p, f))
	case Auditor:
		publish := asks(p)[1:]
		if p.Has(ScopeAudit) {
			publish = append(publish, "$JS.API.DIRECT.GET."+subjects.AuditStream, "$JS.API.DIRECT.GET."+subjects.DeniedStream)
		}
		return allow(publish, hears(p, f))
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
func hears(p Principal, f PermissionInputs) []string {
	if f.OlderBuilds {
		inbox := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox()
		return []string{subjects.Answers(p.Tenant, p.Actor) + ">", inbox + ".>"}
	}
	return []string{p.Answers() + ">", p.Inbox() + ".>"}
}

// agentHears returns the subjects to which an agent may subscribe. They include the chunks of the calls of its actor,
// unless its token is bound: subjects of chunks name neither run nor scopes, so a client with a bound token requests
// its chunks from dispatchers.
func agentHears(p Principal, f PermissionInputs) []string {
	if p.Bound() && !f.OlderBuilds {
		return hears(p, f)
	}
	return append(hears(p, f), chunks(caller(p)))
}

func chunks(of string) string { return "tb.chunk." + of + ">" }

// payloads permits to write the parts of large payloads. It does not permit to read them from the stream: with that
// permission, a connection could make the server publish bytes of its choice on any subject of its account.
func payloads(these string, f PermissionInputs) []string {
	return append([]string{these}, f.read(subjects.PayloadsStream, these)...)
}

// read permits older builds to read a stream by subject.
func (f PermissionInputs) read(stream, subject string) []string {
	if !f.OlderBuilds {
		return nil
	}
	return []string{directGet(stream, subject)}
}

// executor returns the permissions of an instance of an executor: for the work of its pool, and for subjects that name
// the instance.
func executor(p Principal, f PermissionInputs) jwt.Permissions {
	emitted := subjects.ChunksOn(p.Pool)
	publish := slices.Concat(payloads(subjects.PayloadsOn(p.Pool), f), f.read(subjects.ChunksStream, emitted), []string{
		emitted, "tb.ans.>",
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
		append(hears(p, f), subjects.InboxOf(f.Instance)+".>", subjects.ExecutorAnswers(p.Pool, f.Instance)+"*",
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
	return envelope.NewError(envelope.CodeForbidden, "calls: not for the role of this token").
		WithFix("use the token of an agent: `toolbus credentials issue --actor agent://NAME` makes one")
}
