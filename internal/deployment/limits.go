package deployment

import (
	"time"

	"github.com/seed-018f16cc/toolbus/internal/auth"
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

	subscriptions = 10_000 // of each connection
	pingInterval  = 20 * time.Second
)

// limits are the numbers of the template.
type limits struct {
	Connections, Reserved, Subscriptions int
	Pending, LogBytes, LogFiles          int
	Deadline, Ping                       string
}

func theLimits() limits {
	return limits{
		Connections: auth.Connections, Reserved: auth.Reserved, Subscriptions: subscriptions,
		Pending: MaxPending, LogBytes: MaxLogBytes, LogFiles: MaxLogFiles,
		Deadline: WriteDeadline.String(), Ping: pingInterval.String(),
	}
}
