package accounts

import "time"

// Connections of a server, and of each account for tokens. The server counts those of an account on all servers of a
// cluster together. So on each server [Reserved] are left for dispatchers and administrators, also when all clients are
// on one of them.
const (
	// Connections is the limit of each server. It includes connections that have not shown a token yet.
	Connections = 10_000
	// Reserved are connections of each server that the accounts for tokens cannot use.
	Reserved = 100
	// AgentConnections is the limit of the account AGENTS.
	AgentConnections    = 7500
	executorConnections = 2000
	auditorConnections  = 400
	_                   = uint(Connections - Reserved - AgentConnections - executorConnections - auditorConnections)

	subscriptions = 10_000 // of each connection
)

// Limits of each connection of a server, and of its log. One value holds for all connections, those of dispatchers
// included: docs/performance.md says what was measured.
const (
	// MaxPending is how many bytes may wait in the server for a client that reads too slowly. The server then ends the
	// connection.
	MaxPending = 8 << 20
	// WriteDeadline is how long the server waits for a client that does not read at all.
	WriteDeadline = 5 * time.Second
	// MaxLogBytes and MaxLogFiles limit the log of a server.
	MaxLogBytes = 64 << 20
	MaxLogFiles = 4

	pingInterval = 20 * time.Second
)

// limits are the numbers of the template.
type limits struct {
	Connections, Reserved, Subscriptions int
	Pending, LogBytes, LogFiles          int
	Deadline, Ping                       string
}

func theLimits() limits {
	return limits{
		Connections: Connections, Reserved: Reserved, Subscriptions: subscriptions,
		Pending: MaxPending, LogBytes: MaxLogBytes, LogFiles: MaxLogFiles,
		Deadline: WriteDeadline.String(), Ping: pingInterval.String(),
	}
}
