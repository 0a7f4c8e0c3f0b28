package workqueue

import (
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// prefetchTime is how long a message waits in hand for a slot, where a quarter of the lease is not less. It is handed
// back then: another executor may have one.
const prefetchTime = 250 * time.Millisecond

// waiting is a message in hand without a slot.
type waiting struct {
	*Message
	enough *time.Timer
}

// keep keeps a message of s until there is a slot for it, for as long as w.patience. Callers hold w.mu.
func (w *Puller) keep(s *source, work *Message) {
	h := &waiting{Message: work}
	h.enough = time.AfterFunc(w.patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.giveBack(s, h)
	})
	s.waiting = append(s.waiting, h)
}

// giveBack hands back a message that waits, if it still does. Callers hold w.mu.
func (w *Puller) giveBack(s *source, h *waiting) {
	i := slices.Index(s.waiting, h)
	if i < 0 {
		return
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.demand = max(1, s.demand) // at least of that one
	h.enough.Stop()
	h.NakUnstarted(0)
}

// giveBackAll hands back all that wait. Callers hold w.mu.
func (w *Puller) giveBackAll() {
	for _, s := range w.sources {
		for len(s.waiting) > 0 {
			w.giveBack(s, s.waiting[0])
		}
	}
}

// beginWaiting gives a slot to the first message of s that waits for one, if any does. Callers hold w.mu.
func (w *Puller) beginWaiting(s *source) bool {
	if len(s.waiting) == 0 {
		return false
	}
	h := s.waiting[0]
	s.waiting = slices.Delete(s.waiting, 0, 1)
	h.enough.Stop()
	w.begin(s, h.Message)
	return true
}

// declines remembers messages that were declined. A message that comes again to whoever has declined it, and nobody has
// been handed it in between by the server's count, is as new as it was: it need not be looked up and claimed before
// it runs. Its methods are safe for concurrent use.
type declines struct {
	mu sync.Mutex
	of map[origin]decline
}

// origin is where a message lies.
type origin struct {
	stream string
	seq    uint64
}

// decline is what is known of a message that was declined.
type decline struct {
	at      time.Time // of its write: a position may be used again
	counted uint64    // deliveries, by the server's count
	meant   int       // what these were worth, see Message.Deliveries
}

// maxDeclined bounds how many messages are remembered: without that, one costs a read and a claim more.
const maxDeclined = 10_000

func (d *declines) note(w *Message) {
	m := w.meta
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= maxDeclined {
		d.of = map[origin]decline{}
	}
	d.of[origin{m.Stream, m.Sequence.Stream}] = decline{m.Timestamp, m.NumDelivered, w.Deliveries}
}

// recall returns how many deliveries of a message are to be reckoned with, of which the server has counted all.
func (d *declines) recall(m *nats.MsgMetadata) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := origin{m.Stream, m.Sequence.Stream}
	before, ok := d.of[at]
	delete(d.of, at)
	if ok && before.at.Equal(m.Timestamp) && before.counted+1 == m.NumDelivered {
		return before.meant
	}
	return int(m.NumDelivered)
}

// delivery is one handing-out of a message by a consumer.
type delivery struct {
	origin
	consumer string
	counted  uint64 // by the consumer, over all its messages
}

// repeats knows the last deliveries that came over a connection. What lies between the server and this process may
// bring one twice; taken for a message of its own, the second would run what has run, or been handed back, already.
type repeats struct {
	known map[delivery]bool
	order [maxRepeats]delivery // a ring of what is known
	next  int
}

// maxRepeats bounds how many deliveries are remembered: far more than come in the time that one can be late.
const maxRepeats = 4096

// has reports whether the delivery has come before, and remembers it.
func (r *repeats) has(m *nats.MsgMetadata) bool {
	d := delivery{origin{m.Stream, m.Sequence.Stream}, m.Consumer, m.Sequence.Consumer}
	if r.known[d] {
		return true
	}
	if r.known == nil {
		r.known = make(map[delivery]bool, maxRepeats)
	}
	delete(r.known, r.order[r.next])
	r.known[d], r.order[r.next] = true, d
	r.next = (r.next + 1) % maxRepeats
	return false
}

// forget begins anew, as a server that comes again may with its counts.
func (r *repeats) forget() { *r = repeats{} }
