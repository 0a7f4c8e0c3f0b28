package tool

import "context"

// Defined is implemented by endpoints of tools that a server defines: it may change them after they were approved.
type Defined interface {
	Endpoint
	// Approved returns the name of the server and the digest of the definition that was approved. "" takes any.
	Approved() (server, definition string)
}

// Approved returns the server that defines the tool and the digest of the definition that was approved; both are ""
// for a tool that nobody else defines, and the digest also where any definition is taken.
func (m *Manifest) Approved() (server, definition string) {
	if e, ok := m.Endpoint.(Defined); ok {
		return e.Approved()
	}
	return "", ""
}

// Verdict is the result of a comparison of a tool's definition at its server with the one that was approved.
type Verdict int

// The verdicts.
const (
	NotCompared Verdict = iota
	AsApproved
	Changed // and so the tool is not called
)

// Comparer is implemented by adapters of tools that servers define. Its methods are safe for concurrent use.
type Comparer interface {
	// Compared returns the verdict of the last comparison. It asks no server.
	Compared(m *Manifest) Verdict
	// Recheck compares the definitions of tools again over the connections that are open: of a server that announced a
	// change, and, at most once a minute, of one that has changed a tool. It starts no server.
	Recheck(ctx context.Context, tools []*Manifest)
}
