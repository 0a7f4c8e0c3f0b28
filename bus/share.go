package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// pull is a pull request. There are as many as were ever out at once, and each has an inbox that
// stays subscribed to: a message that comes after its request has ended is not lost, which would
// cost its call a lease.
type pull struct {
	inbox  string
	sub    *nats.Subscription
	last   *source // that was asked
	source *source // the same; nil while nothing is asked for
	left   int     // messages still to come
	turn   int     // how often it was used
	end    *time.Timer
}

// free returns how many slots are neither taken nor reserved. Callers hold w.mu.
func (w *Workers) free() int {
	free := w.slots - w.running
	for _, s := range w.sources {
		free -= s.credits
	}
	return free
}

// pull asks for as much as there are free slots. Callers hold w.mu.
func (w *Workers) pull() {
	if w.ended() {
		return
	}
	free := w.free()
	for ; free > 0; free-- {
		s := w.turn(func(s *source) bool { return s.credits == 0 })
		if s == nil {
			break
		}
		w.ask(s, 1, standingPull)
	}
	if free < max(1, w.slots/8) { // gather freed slots: one request for several
		return
	}
	share := map[*source]int{}
	for range free {
		s := w.turn(func(s *source) bool { return s.demand })
		if s == nil {
			s = w.last
		}
		share[s]++
	}
	for s, n := range share {
		w.ask(s, n, extraPull)
	}
}

// turn returns whose turn it is to have a slot, of the sources that may: each as often as its weight
// says, and evenly. It is nil when none may. Callers hold w.mu.
func (w *Workers) turn(may func(*source) bool) (next *source) {
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

// ask reserves n slots and asks for n messages of s. Callers hold w.mu.
func (w *Workers) ask(s *source, n int, wait time.Duration) {
	p := w.unused()
	if p == nil {
		return // no connection: there is another round when there is one
	}
	s.credits += n
	p.last, p.source, p.left = s, s, n
	p.turn++
	turn := p.turn
	p.end = time.AfterFunc(wait+pullGrace, func() { w.unanswered(p, turn) })
	request := fmt.Appendf(nil, `{"expires":%d,"batch":%d}`, wait.Nanoseconds(), n)
	_ = w.nc.PublishRequest(s.next, p.inbox, request) // unanswered otherwise
}

// unused returns a pull that is not out. Callers hold w.mu.
func (w *Workers) unused() *pull {
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
func (w *Workers) over(p *pull) {
	if p.source == nil {
		return
	}
	p.end.Stop()
	p.source.credits -= p.left
	p.source, p.left = nil, 0
}

// unanswered ends a pull of which the server said nothing.
func (w *Workers) unanswered(p *pull, turn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.source == nil || p.turn != turn {
		return
	}
	w.over(p)
	w.pull()
}
