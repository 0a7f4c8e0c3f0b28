package model

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Retention bounds an exploration of what expires when: no races, but real times. Everything is
// kept as long as call.Expiry says.
type Retention struct {
	Class   call.EffectClass
	Callers int             // who ask, each under its own call id
	Waits   []time.Duration // how much time may pass at once, besides until the next event expires
	Passes  int             // how often time passes
	Timeout []time.Duration // what callers choose from
	Keep    time.Duration   // retention of outcomes
	Off     Rule
}

// shelf is one state of a store in which events expire.
type shelf struct {
	events [maxEvents]kept
	ends   [maxAttempts]decided
	now    uint32 // seconds
	seq    uint8
	passes uint8
	asked  uint8
}

// kept is a stored event until it expires.
type kept struct {
	entry entryID
	until uint32
}

// decided remembers a decision after the store has forgotten it.
type decided struct {
	seq uint8
	at  uint32
}

// ExploreRetention visits every state that c allows.
func ExploreRetention(c Retention) Result {
	k := &keeper{Retention: c, rules: newRules(Config{Class: c.Class, Off: c.Off, Asks: "ABCD"[:c.Callers]}),
		seen: map[shelf]bool{}}
	level := []track{{}}
	for depth := 0; ; depth++ {
		var next []track
		for _, t := range level {
			for _, s := range k.next(t) {
				if s.bad != "" {
					return Result{States: len(k.seen), Depth: depth + 1, Bad: s.bad, Trace: s.told}
				}
				if !k.seen[s.shelf] {
					k.seen[s.shelf] = true
					next = append(next, s)
				}
			}
		}
		if len(next) == 0 {
			return Result{States: len(k.seen), Depth: depth}
		}
		level = next
	}
}

// track is a state and how it was reached.
type track struct {
	shelf
	told []string
	bad  string
}

type keeper struct {
	Retention
	*rules
	seen  map[shelf]bool
	steps []track
	from  track
}

// next returns every step from t: a caller asks, an executor claims, somebody decides, time
// passes. Each reads the log as it is.
func (k *keeper) next(t track) []track {
	k.steps, k.from = nil, t
	s := k.log(&t.shelf)
	for i := int(t.asked); i < k.Callers; i++ {
		for _, timeout := range k.Timeout {
			k.ask(t.shelf, s, i, timeout)
		}
	}
	if !s.Empty() && s.Last().Open() {
		k.decide(t.shelf, s, "")
		k.decide(t.shelf, s, "R-UPSTREAM-001")
		k.claim(t.shelf, s)
	}
	if int(t.passes) < k.Passes {
		if until := t.nextExpiry(); until > 0 {
			k.wait(t.shelf, until)
		}
		for _, d := range k.Waits {
			k.wait(t.shelf, t.now+uint32(d/time.Second))
		}
	}
	return k.steps
}

func (k *keeper) ask(w shelf, s call.State, i int, timeout time.Duration) {
	now := call.At(time.Unix(int64(w.now), 0))
	name := string(rune('A' + i))
	v := call.Admit(s, call.AdmitRequest{
		Owner: call.Owner{CallID: name}, Fingerprint: "input", Now: now, Nonce: fmt.Sprint("r", i),
		Deadline: now + call.At(time.Unix(0, 0).Add(timeout)),
		Pinned: call.Pinned{Tool: "tool", ID: "id", Class: k.Class, Fingerprint: "input",
			KeepSeconds: int64(k.Keep / time.Second)},
	})
	w.asked = uint8(i + 1)
	verb := fmt.Sprintf("%s asks with a timeout of %v", name, timeout)
	switch v.Do {
	case call.Write:
		k.store(w, v.Event, call.RequestBody{Request: encode("input"), Earlier: k.carried(w.last())}, verb)
	case call.Join:
		e, _ := call.JoinAll(s, v.Attempt, []string{name}, "")
		k.store(w, e, nil, verb)
	}
}

func (k *keeper) claim(w shelf, s call.State) {
	a := s.Last()
	if a.Claim != nil || k.Class.MayRunAgain() {
		return
	}
	nonce := fmt.Sprint("c", a.N)
	p := call.WorkDelivery{Attempt: a.N, Admitted: a.Admitted, Deliveries: 1, Now: call.At(time.Unix(int64(w.now),
		0)), By: "e",
		Nonce: nonce}
	if step, e := call.Take(s, p); step == call.TakeClaim {
		k.store(w, e, nil, "an executor claims")
	}
}

func (k *keeper) decide(w shelf, s call.State, code string) {
	a := s.Last()
	end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: fmt.Sprintf("o%d%s", a.N, code),
		Effect: "none"}
	if a.Claim != nil {
		end.Claim = a.Claim.Nonce
		end.Nonce = a.Claim.Nonce + "." + end.Nonce // it is the claimer's
	} else if !k.Class.MayRunAgain() {
		end.Cause, code = call.Cancelled, ""
	}
	end.Error = envelope.Code(code)
	ruling := call.Decide(s, a.N, a.Admitted, end)
	v := verdict{Code: ruling.Code, Effect: ruling.Effect, By: end.Nonce, Attempt: a.N}
	body := call.OutcomeBody{Response: encode(v), Earlier: k.carried(w.events[a.Admitted-1].entry)}
	k.store(w, ruling.Event, body, "it is decided")
}

// store appends e, which lives as long as the product says.
func (k *keeper) store(w shelf, e call.Event, b body, verb string) {
	if int(w.seq) == maxEvents {
		return
	}
	bad := ""
	if e.Kind == call.Decided {
		d := &w.ends[e.Attempt-1]
		if d.seq != 0 && w.now < d.at+uint32(k.Keep/time.Second) {
			bad = fmt.Sprintf("attempt %d is decided a second time within its retention", e.Attempt)
		}
		*d = decided{w.seq + 1, w.now}
	}
	id := k.rules.store(k.draft(e, b), w.seq+1)
	w.events[w.seq] = kept{id, w.now + uint32(k.ttl(e)/time.Second)}
	w.seq++
	k.emit(w, fmt.Sprintf("%s\t=> log %d: %s attempt %d, until %v", verb, w.seq, e.Kind, e.Attempt,
		seconds(w.events[w.seq-1].until)), bad)
}

// ttl is call.Expiry, without the rule that is left out.
func (k *keeper) ttl(e call.Event) time.Duration {
	x := call.DefaultExpiry
	if e.Kind == call.Requested && e.Attempt == 1 || !k.without(OutliveRequest|OutliveEarlier) {
		return x.TTL(e)
	}
	a, _ := e.State.Attempt(e.Attempt)
	request := a.Due().Sub(a.At.Time()) + x.Grace
	switch {
	case e.Kind == call.Requested:
		return request
	case k.without(OutliveRequest):
		return k.Keep
	}
	return max(k.Keep, request+x.Margin)
}

// wait lets time pass, and what has had its time expire. It is taken for granted that guardians
// decide an open attempt before the event that opened it is gone.
func (k *keeper) wait(w shelf, until uint32) {
	if s := k.log(&w); !s.Empty() && s.Last().Open() && until >= w.events[s.Last().Admitted-1].until {
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
	k.emit(w, line, "")
}

func seconds(n uint32) string { return (time.Duration(n) * time.Second).String() }

func (k *keeper) emit(w shelf, line, bad string) {
	if bad == "" {
		bad = k.check(&w)
	}
	told := append(append([]string(nil), k.from.told...), line)
	k.steps = append(k.steps, track{w, told, bad})
}

// check holds the log against what was decided: within its retention it is known and its outcome
// found. Once the newest attempt is decided too, every outcome that the log knows of is found.
func (k *keeper) check(w *shelf) string {
	s := k.log(w)
	for i, d := range w.ends {
		a, ok := s.Attempt(i + 1)
		within := d.seq != 0 && w.now < d.at+uint32(k.Keep/time.Second)
		switch {
		case within && !ok:
			return fmt.Sprintf("attempt %d was decided and is forgotten within its retention", i+1)
		case within && a.Open():
			return fmt.Sprintf("attempt %d was decided and is open again", i+1)
		case d.seq != 0 && !s.Empty() && s.Seq < uint64(d.seq):
			return fmt.Sprintf("the log goes back to before the outcome of attempt %d", i+1)
		case ok && !a.Open() && (within || !s.Last().Open()) && !k.found(w, s, a):
			return fmt.Sprintf("attempt %d is decided, but its outcome cannot be found", i+1)
		}
	}
	return ""
}

// found looks for the outcome of a as outcome.Load does.
func (k *keeper) found(w *shelf, s call.State, a call.Attempt) bool {
	for _, id := range []entryID{w.events[a.Decision.Seq-1].entry, w.last(), w.events[s.Last().Admitted-1].entry} {
		if id != 0 && k.outcomeIn(id, a.N) != 0 {
			return true
		}
	}
	return false
}

func (k *keeper) log(w *shelf) call.State { return k.entries[w.last()].State }

func (w *shelf) last() entryID {
	for i := int(w.seq) - 1; i >= 0; i-- {
		if w.events[i].entry != 0 {
			return w.events[i].entry
		}
	}
	return 0
}

// nextExpiry returns when the next event expires; 0 when there is none.
func (w *shelf) nextExpiry() uint32 {
	var first uint32
	for _, e := range w.events {
		if e.entry != 0 && (first == 0 || e.until < first) {
			first = e.until
		}
	}
	return first
}
