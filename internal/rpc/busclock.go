package rpc

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// busClock estimates bus time from the answers to the requests of an inbox. The zero value has no estimate. It is safe
// for concurrent use.
type busClock struct {
	mu sync.Mutex
	// last is the answer with the shortest round trip: Local is when its request was sent, Bus what it says, and Error
	// its round trip. Bus was read that much later at most. Error is 0 without an answer.
	last bus.Reading
}

// clockSlack is how far an answer may be from the estimate beyond the round trips: clocks drift.
const clockSlack = 100 * time.Millisecond

// learn takes the bus time from the header of an answer. The answer with the shortest round trip counts, until one
// contradicts it: somebody has set a clock, or the machine slept. Then learn returns true.
func (c *busClock) learn(h nats.Header, sent, received time.Time) (wrong bool) {
	now := unixMS(h.Get(subjects.HeaderNow))
	if now.IsZero() {
		return false
	}
	r := bus.Reading{Local: sent, Bus: now, Error: max(1, received.Sub(sent))}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.last.Error > 0
	off := r.Bus.Sub(c.last.At(sent))
	wrong = known && (off > r.Error+clockSlack || -off > c.last.Error+clockSlack)
	if !known || wrong || r.Error < c.last.Error {
		c.last = r
	}
	return wrong
}

// limit sets the deadline of a request, by the local clock, in its header in bus time. While bus time is not known,
// it leaves the header out.
func (c *busClock) limit(h nats.Header, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.Error > 0 {
		h[subjects.HeaderUntil] = []string{strconv.FormatInt(c.last.At(deadline).UnixMilli(), 10)}
	}
}
