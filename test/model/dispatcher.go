package model

import "github.com/seed-018f16cc/toolbus/internal/call"

// dispatcher is the next step of desk i.
func (m *machine) dispatcher(w *world, i int) {
	if !w.desks[i].busy {
		return
	}
	m.desk(w, i)
}

// desk writes what call.Admit says, as the dispatcher's place, open and join do.
func (m *machine) desk(w *world, i int) {
	d := w.desks[i]
	n := note{verb: "a dispatcher writes for", subject: "request", number: d.ask}
	draft := d.draft
	if draft == 0 {
		last := m.last(w)
		if d.view != 0 && uint64(w.end) != m.views[d.view].Seq { // it reads what to carry forward
			next := *w
			m.place(&next, i, m.read(&next))
			m.emit(&next, n.but("the log has moved"))
			return
		}
		if d.view == 0 {
			last = 0
		}
		draft = m.admit(d.view, d.ask, d.since, last).draft
	}
	if w.lags > 0 && m.drafts[draft].Kind == call.Requested {
		next := *w
		next.lags--
		m.turnDown(&next, i, n)
	}
	m.write(w, draft, n,
		func(next *world) { next.desks[i].draft = draft },
		func(next *world, v viewID, _ bool) { m.place(next, i, v) })
}

// turnDown lets a dispatcher that lags refuse a request, once it has found that the log has not moved. Another one
// may have admitted a copy of it already, or may do so yet.
func (m *machine) turnDown(w *world, i int, n note) {
	d := w.desks[i]
	if v := m.read(w); v != d.view {
		m.place(w, i, v)
		m.emit(w, n.but("the log has moved"))
		return
	}
	w.desks[i] = desk{}
	if m.without(LagNotFinal) {
		m.tell(w, caller(m.Asks[d.ask:d.ask+1]), m.refusal())
	}
	n.verb = "a dispatcher that lags refuses"
	m.emit(w, n)
}

// place follows call.Admit as far as nothing has to be written.
func (m *machine) place(w *world, i int, v viewID) {
	d := &w.desks[i]
	d.view, d.draft = v, 0
	a := m.admit(v, d.ask, d.since, m.holding(w, v))
	who := caller(m.Asks[d.ask : d.ask+1])
	switch a.do {
	case call.Write, call.Join:
		return
	case call.Await:
		m.accept(w, who, a.attempt, v)
	case call.Replay:
		m.accept(w, who, a.attempt, v)
		m.tell(w, who, m.load(w, v, a.attempt))
	}
	*d = desk{}
}

// holding returns the last event when the view is of it.
func (m *machine) holding(w *world, v viewID) entryID {
	if v != 0 && uint64(w.end) == m.views[v].Seq {
		return m.last(w)
	}
	return 0
}
