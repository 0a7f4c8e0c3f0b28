package auth

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nats-io/jwt/v2"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// PermissionInputs are what the rights of a connection depend on beside its token.
type PermissionInputs struct {
	Partitions int      // of the call log; 0 is one
	Tools      []string // ids of those of an executor's pool
	Instance   string   // of an executor, see [Instance]
	Expired    bool     // the token may only be exchanged for a new one
	// OlderBuilds grants what clients and executors of f16d274 need: a bound token hears all answers and chunks of its
	// actor, and connections read payloads, and chunks of their pool, from the streams.
	OlderBuilds bool
}

// Account returns the account that a connection belongs to.
func Account(p Principal, f PermissionInputs) string {
	switch {
	case f.Expired:
		return Agents // where questions are asked from
	case p.Role == Executor:
		return Exec
	case p.Role == Auditor:
		return Auditors
	}
	return Agents
}

// Permissions are all that a connection may do. This is the only list of what a role may do; a role that is not in it
// may do nothing.
func Permissions(p Principal, f PermissionInputs) jwt.Permissions {
	if f.Expired {
		return allow([]string{subjects.Service(subjects.OpTokenRenew, p.Tenant, p.Actor)}, hears(p, f))
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

// allow permits what is listed. An empty list would permit everything, which none is.
func allow(publish, subscribe []string) jwt.Permissions {
	return jwt.Permissions{Pub: jwt.Permission{Allow: publish}, Sub: jwt.Permission{Allow: subscribe}}
}

// caller is the part of subjects that says whose they are.
func caller(p Principal) string {
	return subjects.Token(p.Tenant) + "." + subjects.Token(p.Actor) + "."
}

// asks are the calls and the questions of an actor, the calls first.
func asks(p Principal) []string {
	return []string{"tb.call." + caller(p) + "*", "tb.svc.*." + strings.TrimSuffix(caller(p), ".")}
}

// hears are the subjects on which an actor is answered, by dispatchers and by the server.
func hears(p Principal, f PermissionInputs) []string {
	if f.OlderBuilds {
		inbox := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox()
		return []string{subjects.Answers(p.Tenant, p.Actor) + ">", inbox + ".>"}
	}
	return []string{p.Answers() + ">", p.Inbox() + ".>"}
}

// agentHears are the subjects that an agent hears, with the chunks of its actor's calls. Subjects of chunks name
// neither run nor scopes, so a client with a bound token asks dispatchers for its chunks.
func agentHears(p Principal, f PermissionInputs) []string {
	if p.Bound() && !f.OlderBuilds {
		return hears(p, f)
	}
	return append(hears(p, f), chunks(caller(p)))
}

func chunks(of string) string { return "tb.chunk." + of + ">" }

// payloads are the parts of large inputs and outputs, to write. A permission to read them from the stream would let a
// connection have the server publish bytes of its choice on any subject of its account.
func payloads(these string, f PermissionInputs) []string {
	return append([]string{these}, f.read(subjects.PayloadsStream, these)...)
}

// read permits to read a stream by subject to builds that do so.
func (f PermissionInputs) read(stream, subject string) []string {
	if !f.OlderBuilds {
		return nil
	}
	return []string{directGet(stream, subject)}
}

// executor is what an instance of an executor may do: with the work of its pool, and under its own name.
func executor(p Principal, f PermissionInputs) jwt.Permissions {
	emitted := subjects.ChunksOn(p.Pool)
	publish := slices.Concat(payloads(subjects.PayloadsOn(p.Pool), f), f.read(subjects.ChunksStream, emitted), []string{
		emitted, "tb.ans.>",
		subjects.PoolSubject(p.Pool, f.Instance),
		"tb.exe.*." + subjects.Token(p.Pool) + "." + subjects.Token(f.Instance),
		"tb.exe.heard." + subjects.Token(p.Pool) + "." + subjects.Token(f.Instance) + ".*",
		subjects.Service(subjects.OpTokenRenew, p.Tenant, p.Actor),
	})
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

// Entitled reports whether what a token says lets a connection publish on a subject. Where the server has not let one
// do so, that was made with an expired token, and is made anew when that is renewed.
func Entitled(token, subject string) bool {
	says, err := Inspect(token)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(Permissions(says, PermissionInputs{}).Pub.Allow, func(allowed string) bool {
		return jwt.Subject(subject).IsContainedIn(jwt.Subject(allowed))
	})
}

// CallPermissions says whether one actor's calls are taken, and remembers the token with which they are: to read one
// takes longer than most else that is done for a call. The zero value knows nothing. It is safe for concurrent use.
type CallPermissions struct{ with atomic.Pointer[string] }

// May refuses a call that the server would take no message of. Without tokens it takes all.
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
