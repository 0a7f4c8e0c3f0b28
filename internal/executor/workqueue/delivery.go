package workqueue

import (
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// prefetchTime is how long a received message waits for a slot, but at most a quarter of the lease. Then it is
// returned, because another executor may have a free slot.
const prefetchTime = 250 * time.Millisecond

// waiting is a received message that waits for a slot.
type waiting struct {
	*Message
	enough *time.Timer
}

// keep keeps a message of s until there is a slot for it, at most for w.patience. The caller holds w.mu.
func (w *Puller) keep(s *source, work *Message) {
	h := &waiting{Message: work}
	h.enough = time.AfterFunc(w.patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.giveBack(s, h)
	})
	s.waiting = append(s.waiting, h)
}

// giveBack returns a message to the server if it is still waiting. The caller holds w.mu.
func (w *Puller) giveBack(s *source, h *waiting) {
	i := slices.Index(s.waiting, h)
	if i < 0 {
		return
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.demand = max(1, s.demand) // it is at least that message
	h.enough.Stop()
	h.NakUnstarted(0)
}

// giveBackAll returns all waiting messages to the server. The caller holds w.mu.
func (w *Puller) giveBackAll() {
	for _, s := range w.sources {
		for len(s.waiting) > 0 {
			w.giveBack(s, s.waiting[0])
		}
	}
}

// beginWaiting gives a slot to the first waiting message of s. It reports whether there was one. The caller holds w.mu.
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

// declines records messages that this process returned unstarted. If such a message is delivered to this process again,
// and by the server's count to no other in between, it has the same Deliveries as before. So a new message need not be
// looked up and claimed before it runs. Its methods are safe for concurrent use.
type declines struct {
	mu sync.Mutex
	of map[origin]decline
}

// origin is the position of a message.
type origin struct {
	stream string
	seq    uint64
}

// decline is the record of a message that was returned unstarted.
type decline struct {
	at      time.Time // the time when it was stored: a position may be used again
	counted uint64    // deliveries, by the server's count
	meant   int       // its Message.Deliveries
}

// maxDeclined limits the number of records. A message without one costs an additional read and a claim.
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

// recall returns the Deliveries of a message whose count by the server is complete, and removes its record.
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

// delivery identifies one delivery of a message by a consumer.
type delivery struct {
	origin
	consumer string
	counted  uint64 // by the consumer, over all its messages
}

// repeats detects duplicates of the last deliveries over a connection. The network between server and process may
// duplicate a delivery. Handling the duplicate would run a message again that has already run or was returned.
type repeats struct {
	known map[delivery]bool
	order [maxRepeats]delivery // ring buffer of the entries in known
	next  int
}

// maxRepeats is the number of recorded deliveries, far more than arrive while a duplicate can be delayed.
const maxRepeats = 4096

// has reports whether the delivery was recorded before, and records it.
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

// forget removes all records, because a restarted server may use the same counts again.
func (r *repeats) forget() { *r = repeats{} }
