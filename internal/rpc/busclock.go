package rpc

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// busClock estimates bus time from the answers to the requests of an inbox. The zero value has no estimate. It is safe
// for concurrent use.
type busClock struct {
	mu    sync.Mutex
	ahead time.Duration // of the local clock, at most trip too far
	trip  time.Duration // of the answer that told it; 0 without one
}

// learn takes the bus time from the header of an answer. The answer with the shortest round trip counts.
func (c *busClock) learn(h nats.Header, sent, received time.Time) {
	now := unixMS(h.Get(subjects.HeaderNow))
	if now.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if trip := max(1, received.Sub(sent)); c.trip == 0 || trip < c.trip {
		c.ahead, c.trip = now.Sub(sent), trip
	}
}

// limit sets the deadline of a request, by the local clock, in its header in bus time. While bus time is not known,
// it leaves the header out.
func (c *busClock) limit(h nats.Header, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trip > 0 {
		h[subjects.HeaderUntil] = []string{strconv.FormatInt(deadline.Add(c.ahead).UnixMilli(), 10)}
	}
}
