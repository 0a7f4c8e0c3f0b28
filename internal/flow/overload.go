package flow

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// maxNamed is the number of senders that are counted separately.
const maxNamed = 100

// OverloadLog logs once per second how many messages were rejected, and the sender of most of them. It is safe for
// concurrent use.
type OverloadLog struct {
	Log  *slog.Logger
	Kind string // of the messages

	any atomic.Bool // messages were rejected in this second

	mu      sync.Mutex
	counts  map[Sender]int // in this second; at most maxNamed
	turned  int
	dropped int
}

// Any reports whether a message was rejected within the last second.
func (o *OverloadLog) Any() bool { return o.any.Load() }

// Note counts a rejected message. dropped means that its sender gets no answer.
func (o *OverloadLog) Note(from Sender, dropped bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		o.counts = map[Sender]int{}
		o.any.Store(true)
		time.AfterFunc(time.Second, o.tell)
	}
	if _, known := o.counts[from]; known || len(o.counts) < maxNamed {
		o.counts[from]++
	}
	if o.turned++; dropped {
		o.dropped++
	}
}

func (o *OverloadLog) tell() {
	o.mu.Lock()
	defer o.mu.Unlock()
	var most Sender
	for from, n := range o.counts {
		if n > o.counts[most] {
			most = from
		}
	}
	o.Log.Warn("senders are over their bounds, and were turned away", "kind", o.Kind, "messages", o.turned,
		"untold", o.dropped, "senders", len(o.counts), "tenant", most.Tenant, "actor", most.Actor, "of_it", o.counts[most])
	o.counts, o.turned, o.dropped = nil, 0, 0
	o.any.Store(false)
}
