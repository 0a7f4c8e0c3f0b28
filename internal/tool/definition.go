package tool

import "context"

// Defined is an endpoint of a tool whose definition belongs to a server. The server may change it after its approval.
type Defined interface {
	Endpoint
	// Approved returns the name of the server and the digest of the approved definition. The digest is "" if any
	// definition is accepted.
	Approved() (server, definition string)
}

// Approved returns the server that defines the tool, and the digest of the approved definition. Both are "" if no
// server defines the tool. Only the digest is "" if any definition is accepted.
func (m *Manifest) Approved() (server, definition string) {
	if e, ok := m.Endpoint.(Defined); ok {
		return e.Approved()
	}
	return "", ""
}

// Verdict is the result of comparing a tool's current definition at its server with the approved one.
type Verdict int

// The verdicts.
const (
	NotCompared Verdict = iota
	AsApproved
	Changed // the adapter does not call the tool
)

// Comparer is an adapter of tools that servers define. Its methods are safe for concurrent use.
type Comparer interface {
	// Compared returns the verdict of the last comparison. It sends nothing to the server.
	Compared(m *Manifest) Verdict
	// Recheck compares the definitions of tools again, over connections that are already open. It asks a server that has
	// announced a change, and, at most once a minute, a server that has changed one of the tools. It starts no server.
	Recheck(ctx context.Context, tools []*Manifest)
}
