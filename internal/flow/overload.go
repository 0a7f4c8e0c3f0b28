package flow

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// maxNamed bounds of how many senders it is known.
const maxNamed = 100

// OverloadLog says which senders are over their bounds, once a second.
type OverloadLog struct {
	Log  *slog.Logger
	Kind string // of what they send

	any atomic.Bool // there are some

	mu      sync.Mutex
	counts  map[Sender]int // in this second; of maxNamed at most
	turned  int
	dropped int
}

// Any reports whether a sender was over its bounds within a second.
func (o *OverloadLog) Any() bool { return o.any.Load() }

// Note counts a message that was turned away, or dropped.
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
