package model

import (
	"fmt"
	"strconv"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Repeats bounds an exploration of one key that is asked for again and again: no races, but a store that keeps
// requests waiting, and executors that come too late or not at all.
type Repeats struct {
	Class  call.EffectClass
	Times  int
	Nobody bool // there is no executor
	Off    Rule
}

// asking is one state of the key. A request waits in a dispatcher until it is stored.
type asking struct {
	view    viewID
	asked   uint8
	runs    uint8 // attempts that an executor has started
	now     uint8 // ticks since the newest request; its deadline is at one
	waiting bool  // it is not stored yet
	late    bool  // it was stored at its deadline or later
	taken   bool  // an executor has started it
}

// ExploreRepeats visits every state that c allows: a key is used up by attempts that ran, and by nothing else.
func ExploreRepeats(c Repeats) Result {
	r := &repeater{Repeats: c, rules: newRules(Config{Class: c.Class, Off: c.Off})}
	return search(asking{}, r.next)
}

type repeater struct {
	Repeats
	*rules
	moves []move[asking]
}

func (r *repeater) next(w asking) []move[asking] {
	r.moves = nil
	open := w.view != 0 && r.views[w.view].Last().Open()
	switch {
	case w.waiting:
		r.store(w)
	case open:
		r.attempt(w)
	case int(w.asked) < r.Times:
		w.asked, w.now, w.waiting, w.taken, w.late = w.asked+1, 0, true, false, false
		r.did(w, fmt.Sprintf("asking %d reaches a dispatcher", w.asked))
		return r.moves
	}
	if (w.waiting || open) && w.now == 0 {
		w.now++
		r.did(w, "its deadline passes")
	}
	return r.moves
}

func (r *repeater) did(w asking, what string) {
	r.moves = append(r.moves, move[asking]{to: w, did: what})
}

// store lets the server take the request, or a dispatcher refuse it.
func (r *repeater) store(w asking) {
	s := r.views[w.view]
	v := call.Admit(r.counted(s), call.AdmitRequest{
		Owner: call.Owner{CallID: strconv.Itoa(int(w.asked))}, Deadline: at(1), Nonce: fmt.Sprint("r", w.asked),
		Pinned: call.Pinned{Tool: "tool", ID: "id", Class: r.Class},
	})
	w.waiting = false
	switch v.Do {
	case call.Write:
		e := v.Event
		copy(e.State.Attempts, s.Attempts)
		w.late = w.now > 0
		r.append(w, e, "it is stored")
	case call.Refuse:
		bad := ""
		if v.Code == envelope.CodeAttempts && int(w.runs) < call.MaxAttempts {
			bad = fmt.Sprintf("the key is used up, and the tool ran %d times", w.runs)
		}
		r.moves = append(r.moves, move[asking]{to: w, did: "it is refused with " + string(v.Code), bad: bad})
	}
}

// counted returns the log of which every attempt counts, where that rule is left out.
func (r *repeater) counted(s call.State) call.State {
	if !r.without(UntakenFree) {
		return s
	}
	s.Attempts = append([]call.Attempt(nil), s.Attempts...)
	for i, a := range s.Attempts {
		if a.Decision != nil {
			d := *a.Decision
			d.NotTaken = false
			s.Attempts[i].Decision = &d
		}
	}
	return s
}

// attempt is what may become of an open attempt: it is started, ends, or is timed out.
func (r *repeater) attempt(w asking) {
	a := r.views[w.view].Last()
	switch {
	case w.taken:
		end := call.Completion{
			Cause: call.ToolEnded, By: call.ByExecutor, Error: envelope.CodeUpstream, Effect: envelope.EffectNone,
		}
		if a.Claim != nil {
			end.Claim = a.Claim.Nonce
		}
		r.decide(w, end, "the tool ends with an error")
	case w.now == 0 && !r.Nobody:
		r.take(w)
	}
	if w.now > 0 {
		end := call.Completion{Cause: call.TimedOut, By: call.ByDeadline, NotTaken: !w.taken}
		if w.late {
			end.Stored = a.Deadline
		}
		r.decide(w, end, "it is timed out")
	}
}

func (r *repeater) take(w asking) {
	s := r.views[w.view]
	a := s.Last()
	step, e := call.Take(s, call.WorkDelivery{
		Attempt: a.N, Admitted: a.Admitted, Deliveries: 1, Now: at(w.now), By: "e", Nonce: fmt.Sprint("c", a.N),
	})
	w.taken, w.runs = true, w.runs+1
	if step == call.TakeClaim {
		r.append(w, e, "an executor claims it")
		return
	}
	r.did(w, "an executor starts it")
}

func (r *repeater) decide(w asking, end call.Completion, what string) {
	s := r.views[w.view]
	a := s.Last()
	end.Nonce = fmt.Sprint("o", a.N)
	ruling := call.Decide(s, a.N, a.Admitted, end)
	r.append(w, ruling.Event, fmt.Sprintf("%s\t=> %s, effect %s", what, ruling.Code, ruling.Effect))
	if d := ruling.Event.State.Last().Decision; d.NotTaken && w.taken {
		r.moves[len(r.moves)-1].bad = fmt.Sprintf("attempt %d ran, and does not count", a.N)
	}
}

// append stores e.
func (r *repeater) append(w asking, e call.Event, what string) {
	w.view = r.view(call.Fold(e, e.State.Seq+1))
	r.did(w, what)
}
