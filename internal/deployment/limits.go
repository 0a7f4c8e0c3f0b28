package deployment

import (
	"time"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// Limits of each connection of a server, and of its log. They apply to all connections, including those of dispatchers:
// see the measurements in docs/performance.md.
const (
	// MaxPending is the number of bytes that the server buffers for a client that reads too slowly. If it is exceeded, the
	// server closes the connection.
	MaxPending = 8 << 20
	// WriteDeadline is the longest time that a write of the server to a client may block.
	WriteDeadline = 5 * time.Second
	// MaxLogBytes and MaxLogFiles limit the size and number of a server's log files.
	MaxLogBytes = 64 << 20
	MaxLogFiles = 4

	subscriptions = 10_000 // per connection
	pingInterval  = 20 * time.Second
)

// limits are the values that the template inserts.
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
