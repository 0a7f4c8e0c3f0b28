package workqueue

import (
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/flow"
)

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
	senders map[flow.Sender]taken // running by sender, without zero entries
}

func slotsOf(n int) slots { return slots{all: n, senders: map[flow.Sender]taken{}} }

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
func (s *slots) exhausted(by flow.Sender) bool {
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
	more, large := w.pulls.affordable(), w.pulls.large()
	for gather := !w.worthwhile(t); !gather; {
		s := w.turn(func(s *source) bool {
			may := more > 0 && (!s.large || large == nil || large == s)
			return s.wants() && w.slots.room(s.overflow, t) > 0 && (may || len(s.waiting) > 0)
		})
		if s == nil {
			break
		}
		if t = t.more(s.overflow, 1); w.beginWaiting(s) {
			continue
		}
		s.share++
		more--
		if s.large {
			large = s
		}
	}
	w.foresee(t, more)
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
// It leaves one slot for each other source. At most more messages may be requested. The caller holds w.mu.
func (w *Puller) foresee(t taken, more int) {
	now, recent := time.Now(), 0
	for _, s := range w.sources {
		if s.recent = s == w.last || now.Sub(s.worked) < extraPull; s.recent {
			recent++
		}
	}
	each := (min(w.slots.all-w.slots.running.all, w.pulls.most) - len(w.sources) + recent) / recent
	for _, s := range w.sources {
		n := min(each-s.credits-s.share, w.slots.room(s.overflow, t), more)
		if s.recent && !w.pulls.alone(s, n) && n >= max(1, each/4) {
			s.share += n
			more -= n
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
