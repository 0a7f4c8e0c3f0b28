package workqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// pull is a pull request to a consumer. Ended ones are reused. Each keeps the subscription to its inbox, so a message
// that arrives after the end of its request is not lost: it would be delivered again only after a lease.
type pull struct {
	inbox  string
	sub    *nats.Subscription
	closed <-chan nats.SubStatus // receives when the subscription has ended
	source *source               // of the pending request; nil if none is pending
	left   int                   // messages of the request that have not arrived
	spare  bool                  // no slot is reserved for its message
	wrong  bool                  // the server answered with an error
	turn   int                   // number of the request
	end    *time.Timer
}

// taken is a number of slots, and how many of them overflow work has.
type taken struct{ all, overflow int }

func (t taken) more(behind bool, n int) taken {
	t.all += n
	if behind {
		t.overflow += n
	}
	return t
}

// slots counts the slots of an executor, and which of them work has. Puller.mu guards it.
type slots struct {
	all     int
	running taken
	senders map[sender]taken // running by sender, without zero entries
}

func slotsOf(n int) slots { return slots{all: n, senders: map[sender]taken{}} }

// kept returns how many slots overflow work leaves free for other work. It is also how many slots overflow work may use
// when less than that is free.
func (s *slots) kept() int { return s.all / 8 }

// room returns how many more slots overflow work, or other work, may take if t is taken.
func (s *slots) room(overflow bool, t taken) int {
	free := s.all - t.all
	if overflow {
		return min(free, max(free-s.kept(), s.kept()-t.overflow))
	}
	return free
}

// add adds n to the counts of running messages with the sender and the kind of slot of work.
func (s *slots) add(work *Message, n int) {
	s.running = s.running.more(work.overflow, n)
	if t := s.senders[work.sender].more(work.overflow, n); t.all > 0 {
		s.senders[work.sender] = t
	} else {
		delete(s.senders, work.sender)
	}
}

// exhausted reports whether overflow calls of a sender run, and it has all slots that overflow work may use.
func (s *slots) exhausted(by sender) bool {
	t := s.senders[by]
	return t.overflow > 0 && t.all >= s.all-s.kept()
}

// reserved returns how many slots are taken or reserved. The caller holds w.mu.
func (w *Puller) reserved() taken {
	t := w.slots.running
	for _, s := range w.sources {
		t = t.more(s.overflow, s.credits)
	}
	return t
}

// free returns how many slots are neither taken nor reserved. The caller holds w.mu.
func (w *Puller) free() int { return w.slots.all - w.reserved().all }

// pull gives free slots to waiting messages, and sends pull requests for the rest. The caller holds w.mu.
func (w *Puller) pull() {
	if w.ended() || w.resumes > 0 {
		return
	}
	w.listen()
	w.share()
}

// listen requests one message of every source that is not known to have any. The request reserves a slot only until the
// server has answered or failed to answer a request of the source for the first time. The caller holds w.mu.
func (w *Puller) listen() {
	held := func(behind bool) bool {
		return slices.ContainsFunc(w.sources, func(s *source) bool { return s.overflow == behind && len(s.waiting) > 0 })
	}
	ahead, behind, t := held(false), held(true), w.reserved()
	for _, s := range w.sources {
		switch {
		case s.heeded || s.credits > 0 || s.demand > 0 || w.slots.room(s.overflow, t) <= 0:
		case ahead || s.overflow && behind: // limits the waiting messages
		case s.answered || s.silent:
			w.ask(s, 1, standingPull, true)
		default:
			w.ask(s, 1, atOnce, false)
			t = t.more(s.overflow, 1)
		}
	}
}

// share gives the free slots to the sources that have work, by weight, and the rest to those that may have some, see
// foresee. The caller holds w.mu.
func (w *Puller) share() {
	t := w.reserved()
	for _, s := range w.sources {
		s.share = 0
	}
	for gather := !w.worthwhile(t); !gather; {
		s := w.turn(func(s *source) bool { return s.wants() && w.slots.room(s.overflow, t) > 0 })
		if s == nil {
			break
		}
		if t = t.more(s.overflow, 1); !w.beginWaiting(s) {
			s.share++
		}
	}
	w.foresee(t)
	for _, s := range w.sources {
		w.ask(s, s.share, extraPull, false)
	}
}

// worthwhile reports whether to give free slots to sources if t is taken. Free slots are collected, so that one request
// is for several messages, unless a source with work has no pending request. The caller holds w.mu.
func (w *Puller) worthwhile(t taken) bool {
	most := 0
	for _, s := range w.sources {
		room := w.slots.room(s.overflow, t)
		if room > 0 && s.urgent() {
			return true
		}
		if s.wants() {
			most = max(most, room)
		}
	}
	return most >= max(1, w.slots.all/8)
}

// foresee divides most of the free slots evenly among the sources that had work recently, if that is several for each.
// It leaves one slot for each other source. The caller holds w.mu.
func (w *Puller) foresee(t taken) {
	now, recent := time.Now(), 0
	for _, s := range w.sources {
		if s.recent = s == w.last || now.Sub(s.worked) < extraPull; s.recent {
			recent++
		}
	}
	each := (w.slots.all - w.slots.running.all - len(w.sources) + recent) / recent
	for _, s := range w.sources {
		n := min(each-s.credits-s.share, w.slots.room(s.overflow, t))
		if s.recent && n >= max(1, each/4) {
			s.share += n
			t = t.more(s.overflow, n)
		}
	}
}

// wants reports whether the source is known to have more work than was or will be requested.
func (s *source) wants() bool { return s.demand > s.credits+s.share || len(s.waiting) > 0 }

// urgent reports whether the source has work and no pending request with a slot.
func (s *source) urgent() bool { return s.demand > 0 && s.credits == 0 || len(s.waiting) > 0 }

// turn returns the source that gets the next slot, of those for which may returns true, by smooth weighted round robin.
// It returns nil if may returns false for all. The caller holds w.mu.
func (w *Puller) turn(may func(*source) bool) (next *source) {
	total := 0
	for _, s := range w.sources {
		if !may(s) {
			continue
		}
		total += s.weight
		s.turns += s.weight
		if next == nil || s.turns > next.turns {
			next = s
		}
	}
	if next != nil {
		next.turns -= total
	}
	return next
}

// ask sends a pull request for n messages of s, and reserves slots for them unless spare is true. The caller holds
// w.mu.
func (w *Puller) ask(s *source, n int, wait time.Duration, spare bool) {
	if n == 0 {
		return
	}
	p := w.unused()
	if p == nil {
		return // no connection: pull is called again after the reconnect
	}
	if s.heeded = s.heeded || spare; !spare {
		s.credits += n
	}
	p.source, p.left, p.spare, p.wrong = s, n, spare, false
	p.turn++
	turn := p.turn
	p.end = time.AfterFunc(wait+pullGrace, func() { w.unanswered(p, turn) })
	_ = w.nc.PublishRequest(s.next, p.inbox, request(n, wait)) // after an error, unanswered ends the request
}

func request(n int, wait time.Duration) []byte {
	if wait == atOnce {
		return fmt.Appendf(nil, `{"no_wait":true,"batch":%d}`, n)
	}
	return fmt.Appendf(nil, `{"expires":%d,"batch":%d}`, wait.Nanoseconds(), n)
}

// unused returns a pull without a pending request. The caller holds w.mu.
func (w *Puller) unused() *pull {
	for _, p := range w.pulls {
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
	w.pulls = append(w.pulls, p)
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
	p.source, p.left = nil, 0
}

// came records that a message of the request of a pull has arrived. The caller holds w.mu.
func (w *Puller) came(p *pull) {
	if !p.spare {
		p.source.credits--
	}
	if p.left--; p.left == 0 {
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
