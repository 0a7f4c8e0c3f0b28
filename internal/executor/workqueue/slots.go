package workqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// pull is a pull request. There are as many as were ever out at once, and each has an inbox that
// stays subscribed to: a message that comes after its request has ended is not lost, which would
// cost its call a lease.
type pull struct {
	inbox  string
	sub    *nats.Subscription
	source *source // that is asked; nil while nothing is asked for
	left   int     // messages still to come
	spare  bool    // no slot is reserved for what comes
	wrong  bool    // the server has said that something is
	turn   int     // how often it was used
	end    *time.Timer
}

// taken is how many slots are taken, and how many of these by what goes behind.
type taken struct{ all, overflow int }

func (t taken) more(behind bool, n int) taken {
	t.all += n
	if behind {
		t.overflow += n
	}
	return t
}

// reserved returns how many slots are taken or reserved. Callers hold w.mu.
func (w *Puller) reserved() taken {
	t := w.running
	for _, s := range w.sources {
		t = t.more(s.overflow, s.credits)
	}
	return t
}

// free returns how many slots are neither taken nor reserved. Callers hold w.mu.
func (w *Puller) free() int { return w.slots - w.reserved().all }

// kept is how many slots what goes behind leaves free, and has for itself where others leave none.
func (w *Puller) kept() int { return w.slots / 8 }

// slotsFor returns how many more slots work of s may have where these are taken.
func (w *Puller) slotsFor(s *source, t taken) int {
	free := w.slots - t.all
	if s.overflow {
		return min(free, max(free-w.kept(), w.kept()-t.overflow))
	}
	return free
}

// pull gives free slots to messages in hand, and asks for more where there are slots left. Callers hold w.mu.
func (w *Puller) pull() {
	if w.ended() || w.paused {
		return
	}
	w.listen()
	w.share()
}

// listen asks for one message of every source that is not known to have any, which takes a slot only until the server
// has said so for the first time, or nothing. Callers hold w.mu.
func (w *Puller) listen() {
	held := func(behind bool) bool {
		return slices.ContainsFunc(w.sources, func(s *source) bool { return s.overflow == behind && len(s.waiting) > 0 })
	}
	ahead, behind, t := held(false), held(true), w.reserved()
	for _, s := range w.sources {
		switch {
		case s.heeded || s.credits > 0 || s.demand > 0 || w.slotsFor(s, t) <= 0:
		case ahead || s.overflow && behind: // or there would be more and more in hand
		case s.answered || s.silent:
			w.ask(s, 1, standingPull, true)
		default:
			w.ask(s, 1, atOnce, false)
			t = t.more(s.overflow, 1)
		}
	}
}

// share gives the free slots to those that want them, by weight; what is left goes to those that may. Callers hold
// w.mu.
func (w *Puller) share() {
	t := w.reserved()
	for _, s := range w.sources {
		s.share = 0
	}
	for gather := !w.worthwhile(t); !gather; {
		s := w.turn(func(s *source) bool { return s.wants() && w.slotsFor(s, t) > 0 })
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

// worthwhile reports whether to give slots to those that want them where these are taken: freed ones are gathered, so
// that one request is for several, unless nothing is under way for somebody that could have one. Callers hold w.mu.
func (w *Puller) worthwhile(t taken) bool {
	most := 0
	for _, s := range w.sources {
		room := w.slotsFor(s, t)
		if room > 0 && s.urgent() {
			return true
		}
		if s.wants() {
			most = max(most, room)
		}
	}
	return most >= max(1, w.slots/8)
}

// foresee shares most of what is free among those that had work of late, evenly, as soon as several can be asked for at
// once: one is left to what may come from each of the others. Callers hold w.mu.
func (w *Puller) foresee(t taken) {
	now, recent := time.Now(), 0
	for _, s := range w.sources {
		if s.recent = s == w.last || now.Sub(s.worked) < extraPull; s.recent {
			recent++
		}
	}
	each := (w.slots - w.running.all - len(w.sources) + recent) / recent
	for _, s := range w.sources {
		n := min(each-s.credits-s.share, w.slotsFor(s, t))
		if s.recent && n >= max(1, each/4) {
			s.share += n
			t = t.more(s.overflow, n)
		}
	}
}

// wants reports whether the source has more work than was, or is to be, asked for, as far as known.
func (s *source) wants() bool { return s.demand > s.credits+s.share || len(s.waiting) > 0 }

// urgent reports whether the source has work that nothing is under way for.
func (s *source) urgent() bool { return s.demand > 0 && s.credits == 0 || len(s.waiting) > 0 }

// turn returns whose turn it is to have a slot, of the sources that may: each as often as its weight
// says, and evenly. It is nil when none may. Callers hold w.mu.
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

// ask asks for n messages of s, and reserves slots for them unless they are to be spare. Callers hold w.mu.
func (w *Puller) ask(s *source, n int, wait time.Duration, spare bool) {
	if n == 0 {
		return
	}
	p := w.unused()
	if p == nil {
		return // no connection: there is another round when there is one
	}
	if s.heeded = s.heeded || spare; !spare {
		s.credits += n
	}
	p.source, p.left, p.spare, p.wrong = s, n, spare, false
	p.turn++
	turn := p.turn
	p.end = time.AfterFunc(wait+pullGrace, func() { w.unanswered(p, turn) })
	_ = w.nc.PublishRequest(s.next, p.inbox, request(n, wait)) // unanswered otherwise
}

func request(n int, wait time.Duration) []byte {
	if wait == atOnce {
		return fmt.Appendf(nil, `{"no_wait":true,"batch":%d}`, n)
	}
	return fmt.Appendf(nil, `{"expires":%d,"batch":%d}`, wait.Nanoseconds(), n)
}

// unused returns a pull that is not out. Callers hold w.mu.
func (w *Puller) unused() *pull {
	for _, p := range w.pulls {
		if p.source == nil {
			return p
		}
	}
	p := &pull{inbox: w.nc.NewInbox()}
	sub, err := w.nc.Subscribe(p.inbox, func(msg *nats.Msg) { w.receive(p, msg) })
	if err != nil || sub.SetPendingLimits(-1, -1) != nil { // slots bound what comes
		return nil
	}
	p.sub = sub
	w.pulls = append(w.pulls, p)
	return p
}

// over frees the slots that a pull still holds. Callers hold w.mu.
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

// came notes that a message of a pull is here. Callers hold w.mu.
func (w *Puller) came(p *pull) {
	if !p.spare {
		p.source.credits--
	}
	if p.left--; p.left == 0 {
		w.over(p)
	}
}

// unanswered ends a pull of which the server said nothing.
func (w *Puller) unanswered(p *pull, turn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.source == nil || p.turn != turn {
		return
	}
	if !p.wrong { // then it is known already
		p.source.known.gone = true // the server may have crashed, and forgotten more than this
		w.lookSoon()
	}
	if !p.wrong && w.nc.IsConnected() {
		w.answers(p.source, false)
	}
	w.over(p)
	w.pull()
}
