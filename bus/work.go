package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/kv"
)

// Work is a work message in hand. Acks and hand-backs are transport; they prove nothing.
type Work struct {
	Entry      call.Entry
	Deliveries int
	msg        jetstream.Msg
}

// Extend says that the work is alive.
func (w Work) Extend() { _ = w.msg.InProgress() } // best effort: a lost lease is survived

// Ack says that the attempt is decided.
func (w Work) Ack() { _ = w.msg.Ack() } // best effort: a redelivery finds the decision

// HandBack returns the work, to be delivered again after a while.
func (w Work) HandBack(after time.Duration) { _ = w.msg.NakWithDelay(after) } // as Ack

// Workers pull work messages of one pool: never more than there are free slots, and shared over
// the priorities by weight, so that low never starves.
type Workers struct {
	slots   int
	handle  func(context.Context, Work)
	sources []*source

	mu      sync.Mutex
	running int
	last    *source // that had work most recently
	again   context.CancelFunc
	round   context.Context // ends when pulls in flight may be lost
	wg      sync.WaitGroup
}

// source is the consumer of one priority.
type source struct {
	cons    jetstream.Consumer
	weight  int
	credits int  // messages asked for and not yet here; each has a slot reserved
	demand  bool // more is waiting, as far as known
}

// The weights of the priorities.
var weights = []struct {
	prio   envelope.Priority
	weight int
}{{envelope.PriorityHigh, 6}, {envelope.PriorityNormal, 3}, {envelope.PriorityLow, 1}}

// MinSlots is the fewest slots that Workers take: one per priority.
const MinSlots = 3

// How long a pull waits. One message per priority is always asked for; what is asked for beyond
// that is asked for briefly, so that slots move to where the work is.
const (
	standingPull = 10 * time.Second
	extraPull    = 300 * time.Millisecond
)

// NewWorkers creates or updates the consumers of pool and returns workers with so many slots,
// which call handle for every message, each in a goroutine of its own.
func NewWorkers(ctx context.Context, js jetstream.JetStream, pool string, slots int, lease time.Duration, handle func(context.Context, Work)) (*Workers, error) {
	w := &Workers{slots: max(slots, MinSlots), handle: handle}
	for _, c := range weights {
		cons, err := ensureWorkers(ctx, js, pool, c.prio, either(lease, DefaultLease))
		if err != nil {
			return nil, err
		}
		w.sources = append(w.sources, &source{cons: cons, weight: c.weight})
	}
	w.last = w.sources[1]
	return w, nil
}

// Run pulls until intake ends, then waits for what is in hand; handlers get ctx, which may end
// later than intake to let them finish (drain).
func (w *Workers) Run(ctx, intake context.Context, nc *nats.Conn) {
	status := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(status)
	w.mu.Lock()
	w.round, w.again = context.WithCancel(intake)
	w.pull(ctx, intake)
	w.mu.Unlock()
	for {
		select {
		case <-intake.Done():
			w.wg.Wait()
			return
		case <-status: // pulls in flight died with the old connection
			w.mu.Lock()
			w.again()
			w.round, w.again = context.WithCancel(intake)
			w.mu.Unlock()
		}
	}
}

// pull asks for as much as there are free slots. Callers hold w.mu.
func (w *Workers) pull(ctx, intake context.Context) {
	if intake.Err() != nil {
		return
	}
	free := w.slots - w.running
	for _, s := range w.sources {
		free -= s.credits
	}
	for _, s := range w.sources {
		if s.credits == 0 && free > 0 {
			w.ask(ctx, intake, s, 1, standingPull)
			free--
		}
	}
	if free < max(1, w.slots/8) { // gather freed slots: one request for several
		return
	}
	total := 0
	for _, s := range w.sources {
		if s.demand {
			total += s.weight
		}
	}
	if total == 0 {
		w.ask(ctx, intake, w.last, free, extraPull)
		return
	}
	share := free
	for _, s := range w.sources {
		if n := min(free, (share*s.weight+total-1)/total); s.demand && n > 0 {
			w.ask(ctx, intake, s, n, extraPull)
			free -= n
		}
	}
}

// ask reserves n slots and pulls n messages of s. Callers hold w.mu.
func (w *Workers) ask(ctx, intake context.Context, s *source, n int, wait time.Duration) {
	s.credits += n
	round := w.round
	w.wg.Go(func() {
		got := w.fetch(ctx, intake, round, s, n, wait)
		w.mu.Lock()
		defer w.mu.Unlock()
		s.credits -= n - got
		if got < n {
			s.demand = false
		}
		w.pull(ctx, intake)
	})
}

// fetch pulls up to n messages and starts their handlers; it returns how many there were.
func (w *Workers) fetch(ctx, intake, round context.Context, s *source, n int, wait time.Duration) int {
	round, cancel := context.WithTimeout(round, wait)
	defer cancel()
	batch, err := s.cons.Fetch(n, jetstream.FetchContext(round))
	if err != nil {
		<-round.Done() // no connection: the next round asks again
		return 0
	}
	got := 0
	for msg := range batch.Messages() {
		got++
		w.start(ctx, intake, s, msg)
	}
	if batch.Error() != nil && intake.Err() == nil {
		<-round.Done()
	}
	return got
}

// start turns a reserved slot into a running handler.
func (w *Workers) start(ctx, intake context.Context, s *source, msg jetstream.Msg) {
	work, ok := open(msg)
	w.mu.Lock()
	s.credits--
	s.demand = ok && work.pending > 0
	w.last = s
	w.running++
	w.mu.Unlock()
	w.wg.Go(func() {
		if ok {
			w.handle(ctx, work.Work)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running--
		w.pull(ctx, intake)
	})
}

type pulled struct {
	Work
	pending uint64
}

// open reads a work message. What is none (an operator's delete marker, a foreign write) is
// acknowledged and forgotten.
func open(msg jetstream.Msg) (pulled, bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return pulled{}, false
	}
	e, err := kv.DecodeEvent(msg.Headers())
	if err != nil || e.Kind != call.Requested {
		_ = msg.Ack() // nothing to run; a redelivery would end here again
		return pulled{}, false
	}
	seq := meta.Sequence.Stream
	entry := call.Entry{State: call.Fold(e, seq), Kind: e.Kind, Attempt: e.Attempt, Body: msg.Data(), Time: meta.Timestamp}
	return pulled{Work{Entry: entry, Deliveries: int(meta.NumDelivered), msg: msg}, meta.NumPending}, true
}
