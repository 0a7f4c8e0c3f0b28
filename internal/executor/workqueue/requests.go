package workqueue

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// pull is a pull request to a consumer. Ended ones are reused. Each keeps the subscription to its inbox, so a message
// that arrives after the end of its request is not lost: it would be delivered again only after a lease.
type pull struct {
	request
	inbox  string
	sub    *nats.Subscription
	closed <-chan nats.SubStatus // receives when the subscription has ended
	wrong  bool                  // the server answered with an error
	turn   int                   // number of the request
	end    *time.Timer
}

// request is the part of a pull request that has not arrived. It is the zero value if none is pending.
type request struct {
	source *source
	left   int  // messages
	bytes  int  // that the messages may have together
	spare  bool // no slot is reserved for its message
	large  bool // it is for one message of any size
}

// Sizes, in bytes as the server counts them: subject, acknowledgement subject, headers and body.
const (
	// maxRequested is how much all pending pull requests of a puller may bring. The server buffers what it sends, and
	// closes a connection with too much of it.
	maxRequested = 4 << 20
	// maxWork is the size of the largest work message. One request for a message of any size may be pending.
	maxWork = envelope.MaxEnvelope + envelope.MaxHeaders + 1<<10
	// minPortion is the least portion. It leaves a puller with many slots fewer messages to request at once.
	minPortion = 8 << 10
)

// pulls are the pulls of a puller, and what they may bring. Puller.mu guards it.
type pulls struct {
	all []*pull
	// portion is how many bytes a request may bring for each of its messages, except the one for a message of any size.
	// The slots and the sources, each of which may have one request without a slot, have equal portions.
	portion int
	most    int // messages that requests with slots may be for at once
}

func pullsFor(slots, sources int) pulls {
	portion := max(minPortion, (maxRequested-maxWork)/(slots+sources))
	return pulls{portion: portion, most: (maxRequested-maxWork)/portion - sources}
}

// affordable returns how many more messages may be requested for slots.
func (p *pulls) affordable() int {
	left := p.most * p.portion
	for _, p := range p.all {
		if !p.spare && !p.large {
			left -= min(p.bytes, p.left*maxWork)
		}
	}
	return max(0, left/p.portion)
}

// alone reports whether a request of s for n messages must be for one of any size instead, because the next message is
// probably larger than the n portions.
func (p *pulls) alone(s *source, n int) bool { return s.large && n*p.portion < maxWork }

// large returns the source of the pending request for a message of any size, or nil.
func (p *pulls) large() *source {
	for _, p := range p.all {
		if p.large {
			return p.source
		}
	}
	return nil
}

// ask requests up to n messages of s, and reserves slots for them unless spare is true. The caller holds w.mu.
func (w *Puller) ask(s *source, n int, wait time.Duration, spare bool) {
	if n > 0 && !spare {
		n = min(n, w.pulls.affordable())
	}
	switch {
	case n == 0:
	case spare || !w.pulls.alone(s, n):
		w.send(request{source: s, left: n, bytes: n * w.pulls.portion, spare: spare}, wait)
	case w.pulls.large() == nil:
		w.send(request{source: s, left: 1, bytes: maxWork, large: true}, wait)
	}
}

// send sends a pull request. The caller holds w.mu.
func (w *Puller) send(r request, wait time.Duration) {
	p := w.unused()
	if p == nil {
		return // no connection: pull is called again after the reconnect
	}
	if r.source.heeded = r.source.heeded || r.spare; !r.spare {
		r.source.credits += r.left
	}
	p.request, p.wrong = r, false
	p.turn++
	turn := p.turn
	p.end = time.AfterFunc(wait+pullGrace, func() { w.unanswered(p, turn) })
	_ = w.nc.PublishRequest(r.source.next, p.inbox, r.body(wait)) // after an error, unanswered ends the request
}

func (r request) body(wait time.Duration) []byte {
	b := fmt.Appendf(nil, `{"expires":%d`, wait.Nanoseconds())
	if wait == atOnce {
		b = []byte(`{"no_wait":true`)
	}
	if !r.large {
		b = fmt.Appendf(b, `,"max_bytes":%d`, r.bytes)
	}
	return fmt.Appendf(b, `,"batch":%d}`, r.left)
}

// unused returns a pull without a pending request. The caller holds w.mu.
func (w *Puller) unused() *pull {
	for _, p := range w.pulls.all {
		if p.source == nil {
			return p
		}
	}
	p := &pull{inbox: w.nc.NewInbox()}
	sub, err := w.nc.Subscribe(p.inbox, func(msg *nats.Msg) { w.receive(p, msg) })
	if err != nil || sub.SetPendingLimits(-1, -1) != nil { // the slots limit the messages
		return nil
	}
	p.sub, p.closed = sub, sub.StatusChanged(nats.SubscriptionClosed)
	w.pulls.all = append(w.pulls.all, p)
	return p
}

// over ends the request of a pull and frees its reserved slots. The caller holds w.mu.
func (w *Puller) over(p *pull) {
	if p.source == nil {
		return
	}
	p.end.Stop()
	if p.source.heeded = p.source.heeded && !p.spare; !p.spare {
		p.source.credits -= p.left
	}
	p.request = request{}
}

// came records that a message of the request of a pull has arrived, and its size in bytes. The caller holds w.mu.
func (w *Puller) came(p *pull, size int) {
	if !p.spare {
		p.source.credits--
	}
	p.source.large = size > w.pulls.portion
	p.bytes -= size
	if p.left--; p.left == 0 || p.bytes == 0 { // the server reports neither
		w.over(p)
	}
}

// unanswered ends the request of a pull that the server has not ended in time.
func (w *Puller) unanswered(p *pull, turn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.source == nil || p.turn != turn {
		return
	}
	if !p.wrong { // otherwise hear has done this
		p.source.known.gone = true // the server may have crashed and lost counts, too
		w.lookSoon()
	}
	if !p.wrong && w.nc.IsConnected() {
		w.answers(p.source, false)
	}
	w.over(p)
	w.pull()
}

// Status codes of the server for a pull request.
const (
	statusHeartbeat = "100"
	statusNothing   = "404"
	statusExpired   = "408"
	statusConflict  = "409"
)

// Descriptions of a status 409.
const (
	// completed follows the last message of a request that may bring more bytes.
	completed = "Batch Completed"
	// tooLarge ends a request, because the next message has more bytes than it may still bring.
	tooLarge = "Message Size Exceeds MaxBytes"
)

// hear handles a status for a pull request. It ends the request if the server has ended it, and a little later after an
// error of the consumer or the server.
func (w *Puller) hear(p *pull, status, description string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p.source == nil || status == statusHeartbeat:
	case status == statusConflict && description == completed: // its messages have ended it, this is a new one
	case status == statusNothing || status == statusExpired:
		p.source.demand = 0
		w.answers(p.source, true)
		w.over(p)
		w.pull()
	case status == statusConflict && description == tooLarge:
		p.source.demand, p.source.large = max(1, p.source.demand), true
		w.answers(p.source, true)
		w.over(p)
		w.pull()
	default:
		p.end.Reset(extraPull)
		p.wrong, p.source.known.gone = true, true
		w.lookSoon()
	}
}
