package operation

import (
	"context"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Role determines what the holder of a token may request.
type Role string

// The roles of tokens. Dispatchers connect with keys and need no token.
const (
	Agent    Role = "agent"    // calls tools, as one actor
	Gateway  Role = "door"     // sends the requests of many actors of its tenant, each with its own token
	Auditor  Role = "auditor"  // reads the audit record of its tenant; with the scope audit:all, of all
	Executor Role = "executor" // runs the calls of one pool
	Operator Role = "operator" // administers the deployment and issues tokens
)

// Info is a row of the table without its types. The zero value is open to nobody.
type Info struct {
	Name  string
	Roles []Role // that may use the operation
	All   bool   // all dispatchers answer a request; otherwise one of them does
	Act   bool   // it may change what others depend on: its intent and its result are on record
	Own   bool   // only over a connection of the actor itself, and not over that of a gateway
	// Tenant means that operators may use it about the calls of all actors of their tenant, not only about their own.
	Tenant bool
	// Expired means that an expired token may be used, too. The handler then authenticates the request itself.
	Expired bool
}

// Permits reports whether a role may use the operation.
func (i Info) Permits(r Role) bool { return slices.Contains(i.Roles, r) }

// CoversTenant reports whether a role may use the operation about the calls of all actors of its tenant.
func (i Info) CoversTenant(r Role) bool { return i.Tenant && r == Operator && i.Permits(r) }

// Subject returns the subject of the requests of an actor of a tenant.
func (i Info) Subject(tenant, actor string) string { return subjects.Service(i.Name, tenant, actor) }

// Wildcard returns the subject filter of the requests of all callers.
func (i Info) Wildcard() string { return subjects.ServiceWildcard(i.Name) }

// Table returns the rows of all operations.
func Table() []Info { return slices.Clone(table) }

// Named returns the operation with that name, or one without roles if the table has no such row.
func Named(name string) Info {
	if at := slices.IndexFunc(table, func(i Info) bool { return i.Name == name }); at >= 0 {
		return table[at]
	}
	return Info{Name: name}
}

// Operation is a row of the table. Q is the type of its requests, and A that of its answers.
type Operation[Q, A any] struct{ Info }

// Asker sends a request for an operation to a dispatcher and decodes the answer. It returns the refusal of the
// dispatcher, if there is one, or an error if there is no answer. rpc.Inbox implements it.
type Asker interface {
	Ask(ctx context.Context, op string, q, answer any) (*envelope.Error, error)
}

// Ask sends a request over an [Asker], and returns its results.
func (o Operation[Q, A]) Ask(ctx context.Context, over Asker, q Q) (a A, refusal *envelope.Error, err error) {
	refusal, err = over.Ask(ctx, o.Name, q, &a)
	return a, refusal, err
}
