package model

func (m *machine) guard(w *world, msg uint8, end Ending) {
	w.watches++
	w.guards[0] = guard{busy: true, view: m.read(w), msg: msg, end: end, nth: w.watches, sure: !w.manned(w.msgs[msg])}
}

// guardian is the next step of guard i.
func (m *machine) guardian(w *world, i int) {
	g := w.guards[i]
	if !g.busy {
		return
	}
	m.guarding(w, i)
}

func (m *machine) guarding(w *world, i int) {
	g := w.guards[i]
	msg := w.msgs[g.msg]
	number := m.entries[msg.entry].Attempt
	n := note{verb: "the guardian decides", subject: "watch", number: g.nth}
	draft := g.draft
	if draft == 0 {
		a := m.decide(m.guardAsk(w, g))
		if !a.do {
			next := *w
			if !a.gone && !a.taken {
				m.notOwn(&next, g.view, number, guardians+decider(g.nth))
				m.tellOwner(&next, msg, m.load(&next, g.view, number))
			}
			next.guards[i] = guard{}
			m.emit(&next, n.but("it finds it decided"))
			return
		}
		draft = a.draft
	}
	m.write(w, draft, n,
		func(next *world) { next.guards[i].draft = draft },
		func(next *world, v viewID, won bool) {
			next.guards[i].view, next.guards[i].draft = v, 0
			if won {
				m.tellOwner(next, msg, m.load(next, v, number))
				next.guards[i] = guard{}
			}
		})
}

// guardAsk is what a guardian asks; earlier outcomes it reads from the request event.
func (m *machine) guardAsk(w *world, g guard) decideAsk {
	earlier := entryID(0)
	if a, ok := m.views[g.view].Attempt(m.entries[w.msgs[g.msg].entry].Attempt); ok && a.N > 1 {
		earlier = w.events[a.Admitted-1]
	}
	return decideAsk{
		view: g.view, msg: w.msgs[g.msg].entry, end: g.end, nonce: guardians + decider(g.nth), earlier: earlier,
		sure: g.sure, late: w.msgs[g.msg].late,
	}
}
