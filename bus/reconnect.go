package bus

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// ReconnectWatch tells that a connection was made anew before anything is done with what came over it. The status of
// the connection says so only a while later, which is too late for that. It is safe for concurrent use.
type ReconnectWatch struct {
	NC     *nats.Conn
	Notify func()

	mu   sync.Mutex
	seen uint64
}

// Check tells, if the connection was made anew since the last check.
func (a *ReconnectWatch) Check() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.NC.Stats().Reconnects; n != a.seen {
		a.seen = n
		a.Notify()
	}
}
