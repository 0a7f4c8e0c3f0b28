package model

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// forgery is an event that an executor writes which does not keep to the protocol: the server lets each executor of
// the pool write claims and decisions, and checks nothing of them but whose they are.
type forgery struct {
	name string
	kind call.Kind
	make func(s *call.State, a *call.Attempt) // changes what the log says; nil for what cannot be decoded
	when func(s call.State, a call.Attempt) bool
	runs bool // it has run the tool before
}

// stranger is its instance, and no delivery of a message.
const stranger = "e99"

// forgeries are all that it may try. A claim of what nobody has claimed is no forgery: whoever claims first may run the
// call, and is believed. Nor is a success where the tool declares a lookup.
var forgeries = []forgery{
	{"a success", call.Decided, succeed, needsClaimer, false},
	{"a success under a claim of its own", call.Decided, func(s *call.State, a *call.Attempt) {
		seize(s, a)
		succeed(s, a)
	}, always, false},
	{"a success of a tool with a lookup", call.Decided, func(s *call.State, a *call.Attempt) {
		s.Lookup = call.LookupYes
		succeed(s, a)
	}, needsClaimer, false},
	{"a success of a pure tool", call.Decided, func(s *call.State, a *call.Attempt) {
		s.Class, s.Lookup = call.Pure, ""
		succeed(s, a)
	}, always, false},
	{"the success of a further attempt", call.Decided, func(s *call.State, a *call.Attempt) {
		further := *a
		further.N++
		seize(s, &further)
		succeed(s, &further)
		s.Attempts = append(s.Attempts, further)
	}, always, false},
	{"that it may be tried again", call.Decided, func(_ *call.State, a *call.Attempt) {
		decide(a, envelope.RetryableError, envelope.CodeTimeout, envelope.EffectNone)
		a.Decision.By = call.ByDeadline
	}, always, false},
	{"that nobody knows how it ended", call.Decided, func(_ *call.State, a *call.Attempt) {
		decide(a, envelope.TerminalError, envelope.CodeToolUnknownState, envelope.EffectUnknown)
	}, always, false},
	{"a claim of what is claimed", call.Claimed, seize, func(_ call.State, a call.Attempt) bool {
		return a.Open() && a.Claim != nil
	}, false},
	{"what cannot be decoded", call.Decided, nil, always, false},
	{"what cannot be decoded, after a run without a claim", call.Decided, nil, unclaimed, true},
}

func always(call.State, call.Attempt) bool           { return true }
func needsClaimer(s call.State, _ call.Attempt) bool { return s.Lookup == call.LookupNo }

// unclaimed is when a run without a claim is the first one.
func unclaimed(s call.State, a call.Attempt) bool {
	return !s.MayRunAgain() && a.Open() && a.Claim == nil
}

func seize(_ *call.State, a *call.Attempt) {
	a.Claim = &call.Claim{By: stranger, Nonce: stranger, Fence: a.Fence(), Count: 1}
}

func succeed(_ *call.State, a *call.Attempt) {
	decide(a, envelope.Success, "", envelope.EffectApplied)
}

func decide(a *call.Attempt, s envelope.Status, c envelope.Code, e envelope.Effect) {
	a.Decision = &call.Decision{Nonce: stranger + ".o", Status: s, Code: c, Effect: e, By: call.ByExecutor}
}

// strangers lets an executor that does not keep to the protocol write to the log, as soon as there is one.
func (m *machine) strangers(w *world) {
	last := m.last(w)
	if w.strangers == 0 || last == 0 {
		return
	}
	s := m.views[m.read(w)]
	for _, f := range forgeries {
		unbound := f.make != nil && !s.Bound() // it is believed there
		if !f.when(s, s.Last()) || unbound || f.runs && w.strangers > 1 {
			continue
		}
		next := *w
		next.strangers--
		m.intrude(&next, s, f)
		m.emit(&next, note{verb: "another executor writes " + f.name})
	}
}

// event returns what f makes of the log s, and what its body says.
func (f forgery) event(s call.State) (call.Event, verdict) {
	e := call.Event{Kind: f.kind, State: s, Nonce: stranger}
	e.State.Attempts = slices.Clone(s.Attempts)
	f.make(&e.State, &e.State.Attempts[len(s.Attempts)-1])
	e.Attempt = e.State.Last().N
	v := verdict{By: stranger + ".o", Attempt: e.Attempt}
	if d := e.State.Last().Decision; f.kind == call.Decided {
		e.Nonce, v.Code, v.Effect = d.Nonce, d.Code, d.Effect
	}
	return e, v
}

// intrude stores what f makes of the log s. What the log does not allow takes its place there, and nothing else.
func (m *machine) intrude(w *world, s call.State, f forgery) {
	if f.make != nil {
		e, v := f.event(s)
		if m.allows(s, e) {
			m.append(w, m.draft(e, call.OutcomeBody{Response: encode(v), Earlier: m.carried(m.last(w))}))
			return
		}
	}
	if a := s.Last(); f.make == nil && a.Open() {
		w.garbled = uint8(a.N)
		if f.runs {
			m.effectOf(w, a.N)
		}
	}
	if w.seq++; w.seq > maxEvents {
		panic("model: more events than fit; choose a smaller configuration")
	}
	w.end = w.seq
	if w.late != 0 && !m.fits(w, w.late) {
		w.late = 0
	}
}

// allows asks State.Allows.
func (r *rules) allows(s call.State, e call.Event) bool {
	a, _ := e.State.Attempt(e.Attempt)
	switch {
	case r.without(OneStep):
		return e.Check() == nil
	case r.without(ClaimerSucceeds) && s.Bound() && e.State.Lookup == s.Lookup:
		s.Lookup, e.State.Lookup = call.LookupYes, call.LookupYes
	case r.without(OthersGiveUp) && e.Kind == call.Decided && a.Decision.Status == envelope.RetryableError:
		e.State.Attempts = slices.Clone(e.State.Attempts)
		d := *a.Decision
		d.Status, d.Effect = envelope.TerminalError, envelope.EffectUnknown
		e.State.Attempts[a.N-1].Decision = &d
	}
	return s.Allows(e) == nil
}
