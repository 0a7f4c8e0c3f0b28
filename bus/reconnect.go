package bus

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// ReconnectWatch calls Notify after a reconnect of a connection. Call Check before you act on a message: so Notify runs
// before anything that arrived over the new connection takes effect. The status channels and handlers of nats.go run
// later, in another goroutine. Its method is safe for concurrent use.
type ReconnectWatch struct {
	NC     *nats.Conn
	Notify func() // called by Check, by one goroutine at a time

	mu   sync.Mutex
	seen uint64
}

// Check calls Notify if the connection has reconnected since the last call of Check.
func (a *ReconnectWatch) Check() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.NC.Stats().Reconnects; n != a.seen {
		a.seen = n
		a.Notify()
	}
}
