package model

import (
	"fmt"
	"math"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Lies bounds an exploration of one side-effectful call. Another executor writes forgeries into its log, before the
// claim, under it and after the outcome. There are no races, but real times. Each reader folds the stored events, from
// the first one that has not expired.
type Lies struct {
	Lookup call.Lookup
	Lies   int // events of the other executor
	Passes int // how often time passes
	Off    Rule
}

// lied is one state of the log. An event of the other executor never expires: the server takes any expiry from it.
type lied struct {
	events  [maxEvents]kept
	outcome uint8  // position of the first decision that a follower observed; 0 for none
	until   uint32 // end of the retention of that outcome
	now     uint32 // seconds
	seq     uint8
	lies    uint8
	passes  uint8
	effect  bool
}

const (
	lieTimeout = time.Minute
	lieKeep    = 30 * time.Minute
	claimer    = "e1.c" // nonce of the rightful claim
	never      = math.MaxUint32
)

// ExploreLies visits every state that c allows: no lie is an outcome, and all observers find the same outcome for as
// long as the key is promised.
func ExploreLies(c Lies) Result {
	l := &liar{Lies: c, rules: newRules(Config{Class: call.SideEffectful, Lookup: c.Lookup, Off: c.Off})}
	return search(lied{}, l.next)
}

type liar struct {
	Lies
	*rules
	moves []move[lied]
}

func (l *liar) next(w lied) []move[lied] {
	l.moves = nil
	s, _ := l.fold(&w)
	if s.Empty() {
		if w.seq == 0 {
			l.request(w)
		}
		return l.moves
	}
	l.lie(w, s)
	a := s.Last()
	if a.Claim != nil && a.Claim.Nonce == claimer && !w.effect { // it looks at the log no more before it runs
		effect := w
		effect.effect = true
		l.did(effect, "the tool has its effect", "")
	}
	if a.Open() {
		l.claim(w, s, a)
		if l.clock(w) >= a.Deadline {
			l.decide(w, s, call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "g"}, "a guardian times it out")
		}
	}
	if int(w.passes) < l.Passes {
		for _, d := range []time.Duration{lieTimeout, call.DefaultExpiry.Grace + lieTimeout} {
			l.wait(w, s, w.now+uint32(d/time.Second))
		}
	}
	return l.moves
}

func (l *liar) clock(w lied) call.UnixMS { return call.UnixMS(w.now) * 1000 }

func (l *liar) request(w lied) {
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: "A"}, Fingerprint: "input", Now: l.clock(w), Nonce: "r",
		Deadline: call.UnixMS(lieTimeout / time.Millisecond),
		Pinned: call.Pinned{Tool: "tool", ID: "id", Class: call.SideEffectful, Fingerprint: "input", Lookup: l.Lookup,
			KeepSeconds: int64(lieKeep / time.Second)},
	})
	l.append(w, v.Event, "a dispatcher opens it", l.ttl(v.Event))
}

// ttl is call.Expiry, without the rule that is left out.
func (l *liar) ttl(e call.Event) time.Duration {
	if e.Kind == call.Requested && l.without(RequestsStay) {
		e.State.Lookup = ""
	}
	return call.DefaultExpiry.TTL(e)
}

// lie lets the other executor write each forgery that can be decoded, made for the log as it is.
func (l *liar) lie(w lied, s call.State) {
	if int(w.lies) == l.Lies.Lies {
		return
	}
	w.lies++
	for _, f := range forgeries {
		if f.make != nil && f.when(s, s.Last()) {
			e, _ := f.event(s)
			l.append(w, e, "another executor writes "+f.name, never*time.Second)
		}
	}
}

// claim lets the rightful executor claim the call, and decide it once it has run.
func (l *liar) claim(w lied, s call.State, a call.Attempt) {
	p := call.WorkDelivery{Attempt: 1, Admitted: a.Admitted, Deliveries: 1, Now: l.clock(w), By: "e1", Nonce: claimer,
		Gone: func(string) bool { return false }}
	switch step, e := call.Take(s, p); {
	case step == call.TakeClaim:
		l.append(w, e, "an executor claims it", l.ttl(e))
	case step == call.Run && w.effect:
		end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "e1.o", Claim: claimer,
			Effect: envelope.EffectApplied}
		l.decide(w, s, end, "its executor decides")
	}
}

func (l *liar) decide(w lied, s call.State, end call.Completion, what string) {
	end.Now = l.clock(w)
	if ruling := call.Decide(s, 1, s.Last().Admitted, end); ruling.Do {
		l.append(w, ruling.Event, what, l.ttl(ruling.Event))
	}
}

// append stores e, and lets a follower that knows all events observe it.
func (l *liar) append(w lied, e call.Event, what string, ttl time.Duration) {
	if int(w.seq) == maxEvents {
		panic("model: more events than fit; choose a smaller configuration")
	}
	before, _ := l.fold(&w)
	until := uint32(never)
	if life := uint32(ttl / time.Second); life < never {
		until = w.now + life
	}
	w.events[w.seq] = kept{l.store(l.draft(e, nil), w.seq+1), until}
	w.seq++
	bad := ""
	switch ok := l.allows(before, e); {
	case !ok && until != never:
		bad = fmt.Sprintf("the log does not allow %s, which a rule made", e.Kind)
	case ok && e.Kind == call.Decided && w.outcome == 0:
		w.outcome, w.until = w.seq, w.now+uint32(lieKeep/time.Second)
	}
	l.did(w, fmt.Sprintf("%s\t=> log %d: %s", what, w.seq, e.Kind), bad)
}

// wait lets time pass. It is taken for granted that a guardian decides an open attempt long before its request expires.
func (l *liar) wait(w lied, s call.State, until uint32) {
	if s.Last().Open() && until >= uint32((lieTimeout+call.DefaultExpiry.Grace)/time.Second) {
		return
	}
	w.now, w.passes = until, w.passes+1
	line := "it is " + seconds(until)
	for i, e := range w.events {
		if e.entry != 0 && e.until <= until {
			w.events[i] = kept{}
			line += fmt.Sprintf(", log %d expires", i+1)
		}
	}
	l.did(w, line, "")
}

func (l *liar) did(w lied, what, bad string) {
	if bad == "" {
		bad = l.check(&w)
	}
	l.moves = append(l.moves, move[lied]{to: w, did: what, bad: bad})
}

// fold folds the stored events as a reader does. It returns the state, at the end of the log, and the positions of the
// decisions that count.
func (l *liar) fold(w *lied) (s call.State, outcomes []uint8) {
	for i, k := range w.events {
		if k.entry == 0 {
			continue
		}
		e := l.entries[k.entry].event()
		if l.allows(s, e) {
			s = call.Fold(e, uint64(i+1))
			if e.Kind == call.Decided {
				outcomes = append(outcomes, uint8(i+1))
			}
		}
	}
	if !s.Empty() {
		s.Seq = uint64(w.seq)
	}
	return s, outcomes
}

// check compares the outcome that a reader finds with the one that was told first.
func (l *liar) check(w *lied) string {
	if w.outcome != 0 && w.now >= w.until {
		return "" // the key is not promised any more
	}
	s, outcomes := l.fold(w)
	switch {
	case w.outcome == 0 && len(outcomes) == 0:
		return ""
	case len(outcomes) != 1 || outcomes[0] != w.outcome:
		return fmt.Sprintf("the outcome is log %d, and a reader finds %v", w.outcome, outcomes)
	}
	d := s.Last().Decision
	switch {
	case d.Status == envelope.Success && (!w.effect || call.Instance(d.Nonce) == stranger):
		return "a lie is the outcome: a success of " + call.Instance(d.Nonce)
	case d.Effect == envelope.EffectNone && w.effect:
		return "a lie is the outcome: effect none, but it had one"
	}
	return ""
}
