package model

import (
	"fmt"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// broken notes that the step which is being made breaks a promise; the first one counts.
func (m *machine) broken(format string, args ...any) {
	if m.bad == "" {
		m.bad = fmt.Sprintf(format, args...)
	}
}

// malformed notes that it makes a log as no log must be.
func (m *machine) malformed(format string, args ...any) {
	if !m.Promises {
		m.broken(format, args...)
	}
}

// checkEvent holds every event against the log before it.
func (m *machine) checkEvent(w *world, before call.State, e stored) {
	a, ok := before.Attempt(e.Attempt)
	switch {
	case before.Final():
		m.malformed("%s was written after a final outcome", e.Kind)
	case e.Kind != call.Requested && ok && !a.Open():
		m.malformed("%s was written for attempt %d, which was decided", e.Kind, e.Attempt)
	case e.Kind == call.Requested && ok:
		m.malformed("attempt %d was opened twice", e.Attempt)
	}
	if e.Kind != call.Decided && w.success {
		m.malformed("%s was written after a success", e.Kind)
	}
}

// checkDecision holds a decision against what has happened, and tells everyone who waits.
func (m *machine) checkDecision(w *world, e stored) {
	a, _ := e.State.Attempt(e.Attempt)
	d := a.Decision
	n := e.Attempt - 1
	if d.Effect == envelope.EffectNone && d.Status != envelope.Success {
		w.none[n] = true
		if w.effects[n] > 0 {
			m.broken("attempt %d ended with effect none, but it had one", e.Attempt)
		}
	}
	if d.Status == envelope.Success {
		w.success = true
		if w.effects[n] == 0 && e.State.Class != call.Pure {
			m.broken("attempt %d succeeded without its effect", e.Attempt)
		}
	}
	if d.Status == envelope.RetryableError && e.State.Class == call.SideEffectful && d.Effect != envelope.EffectNone {
		m.malformed("attempt %d of a side-effectful call may be retried with effect %s", e.Attempt, d.Effect)
	}
	if int(w.garbled) == e.Attempt && d.By != call.ByExecutor && call.Instance(d.Nonce) != stranger &&
		(d.Status != envelope.TerminalError || d.Effect != envelope.EffectUnknown) {
		m.broken("attempt %d may have run, and was ended with %s, effect %s", e.Attempt, d.Status, d.Effect)
	}
	o := m.load(w, e.view, e.Attempt)
	if o == 0 {
		m.broken("the outcome of attempt %d cannot be found", e.Attempt)
	}
	for who, attempt := range w.bound {
		if int(attempt) == e.Attempt {
			m.tell(w, who, o)
		}
	}
}

// run starts the tool for j.
func (m *machine) run(w *world, j *job, fence uint64) {
	j.at = running
	if w.msgs[j.msg].life != w.life {
		m.malformed("a message of an expired log is run")
		return
	}
	n := m.attempt(w, j) - 1
	w.runs[n]++
	switch {
	case m.Class == call.SideEffectful && w.runs[n] > 1:
		m.malformed("attempt %d of a side-effectful call runs twice", n+1)
	case m.Poison && int(w.runs[n]) > 2+call.MaxDeaths: // the first two runs count as one death
		m.broken("attempt %d runs more often than it may be claimed", n+1)
	case !m.Poison:
		w.runs[n] = 1
	}
	if m.without(ClaimInLog) {
		return
	}
	if w.fences&(1<<fence) != 0 {
		m.broken("two runs have the fence %d", fence)
	}
	w.fences |= 1 << fence
}

// effect commits the tool's effect in the name of j.
func (m *machine) effect(w *world, j *job) {
	if m.Class == call.Pure || w.msgs[j.msg].life != w.life {
		return
	}
	m.effectOf(w, m.attempt(w, j))
}

// effectOf commits the tool's effect for an attempt.
func (m *machine) effectOf(w *world, attempt int) {
	n := attempt - 1
	if w.none[n] {
		m.broken("attempt %d has an effect after it ended with none", n+1)
	}
	if m.Class == call.SideEffectful {
		for _, earlier := range w.effects {
			if earlier > 0 {
				m.broken("a second effect under one key")
			}
		}
	}
	w.effects[n] = 1
}

// takeover checks that j, which finds the claimer gone, is right.
func (m *machine) takeover(w *world, j *job) {
	a, _ := m.views[j.view].Attempt(m.attempt(w, j))
	if !m.Suspect && w.gone&(1<<delivery(a.Claim.By)) == 0 {
		m.broken("the claim of a live executor is taken over")
	}
}

// notOwn checks that a decider which adopts an outcome has not decided it itself.
func (m *machine) notOwn(_ *world, v viewID, n int, by decider) {
	if a, ok := m.views[v].Attempt(n); ok && a.Decision != nil && a.Decision.Nonce == by.String() {
		m.broken("the decision of %s is taken for another's by itself", by)
	}
}

// accept lets a caller wait for attempt n.
func (m *machine) accept(w *world, who, n int, v viewID) {
	if had := w.bound[who]; had != 0 && int(had) != n {
		m.malformed("caller %c is bound to attempts %d and %d", "ABX"[who], had, n)
	}
	if m.views[v].Fingerprint != input(who) {
		m.malformed("caller %c waits for the outcome of another input", "ABX"[who])
	}
	w.bound[who] = uint8(n)
}

// tellOwner tells the owner of the attempt that msg opened.
func (m *machine) tellOwner(w *world, msg message, o outcomeID) {
	if msg.life != w.life {
		return // a retention ago
	}
	e := m.entries[msg.entry]
	a, _ := e.State.Attempt(e.Attempt)
	m.tell(w, caller(a.Owner.CallID), o)
}

// tell gives a caller an outcome. Everybody who waits is told at once: a caller that is told early can be
// told two things sooner.
func (m *machine) tell(w *world, who int, o outcomeID) {
	if o == 0 {
		return
	}
	had := w.told[who]
	if had != 0 && had != o {
		m.broken("caller %c was told %s, then %s", "ABX"[who], m.outcomes[had], m.outcomes[o])
	}
	if in := m.outcomes[o].Input; in != "" && in != input(who) {
		m.broken("caller %c was told the outcome of another input", "ABX"[who])
	}
	w.told[who] = o
}

func (v verdict) String() string {
	code := string(v.Code)
	if code == "" {
		code = "success"
	}
	return fmt.Sprintf("%s of attempt %d by %s", code, v.Attempt, v.By)
}

// doomed says whether the open attempt of the log could not be ended any more by a guardian that
// is left alone with it: its next decision has to be accepted.
func (m *machine) doomed(w *world) string {
	last := m.last(w)
	v := m.read(w)
	if last == 0 || m.entries[last].State.Last().Decision != nil {
		return ""
	}
	if bad, ok := m.ended[v]; ok && !m.without(KeepPlace) {
		return bad
	}
	bad := ""
	for _, msg := range w.msgs {
		if msg.entry == 0 || m.seqOf(msg.entry) != m.entries[last].State.Last().Admitted {
			continue
		}
		a := m.decide(decideAsk{view: v, msg: msg.entry, end: timedOut, nonce: guardians})
		if !a.do || !m.fits(w, a.draft) {
			bad = "nobody can decide the open attempt any more"
		}
	}
	m.ended[v] = bad
	return bad
}
