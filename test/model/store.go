package model

import "github.com/seed-018f16cc/toolbus/internal/call"

// last returns the last event of the log; 0 when it is empty.
func (m *machine) last(w *world) entryID {
	for i := int(w.seq) - 1; i >= 0; i-- {
		if w.events[i] != 0 {
			return w.events[i]
		}
	}
	return 0
}

func (m *machine) seqOf(e entryID) uint64 { return uint64(m.entries[e].seq) }

// read returns the log as a reader sees it now: what its last event says, at the end of the log, and whether an event
// of the open attempt cannot be decoded.
func (m *machine) read(w *world) viewID {
	last := m.last(w)
	v := m.entries[last].view
	if last != 0 && m.seqOf(last) != uint64(w.end) && !m.without(KeepPlace) {
		s := m.views[v]
		s.Seq = uint64(w.end)
		v = m.view(s)
	}
	if last != 0 && w.garbled != 0 && !m.without(GarbledCounts) {
		v = m.view(m.views[v].Undecoded(int(w.garbled)))
	}
	return m.seen(w, v)
}

func (m *machine) seen(w *world, v viewID) viewID { return m.withClaims(v, w.claims) }

// fits reports whether the store takes draft d: the compare-and-set.
func (m *machine) fits(w *world, d draftID) bool {
	e := m.drafts[d]
	return e.State.Seq == uint64(w.end) || m.without(AdmissionCAS) && e.Kind == call.Requested
}

// write is kv.Log.Write of d: published, and when the answer is not a plain yes, resolved by
// reading the log. It emits a step for everything that can happen; done continues the writer
// with the log as it then knows it, wait leaves it without an answer. A writer without an
// answer looks at the log and, if it has not moved, publishes again: it is the same step.
func (m *machine) write(w *world, d draftID, n note, wait func(*world), done func(next *world, v viewID, won bool)) {
	if !m.fits(w, d) {
		m.refused(w, d, n, done)
		return
	}
	next := *w
	v := m.append(&next, d)
	done(&next, m.seen(&next, v), true)
	m.emit(&next, n)
	if w.lost > 0 {
		next := *w
		next.lost--
		m.append(&next, d)
		wait(&next)
		m.emit(&next, n.but("the answer is lost"))
	}
	if w.lates > 0 && w.late == 0 {
		next := *w
		next.lates--
		next.late = d
		wait(&next)
		m.emit(&next, n.but("the write is late"))
	}
}

// refused continues a writer whose expectation does not hold, or, where the store looks at
// message ids first, one whose write was applied already.
func (m *machine) refused(w *world, d draftID, n note, done func(*world, viewID, bool)) {
	if m.Dedup {
		for _, e := range w.events {
			if e != 0 && m.entries[e].draft == d {
				next := *w
				done(&next, m.seen(w, m.entries[e].view), true)
				m.emit(&next, n.but("known already"))
				return
			}
		}
	}
	next := *w
	v := m.read(w)
	won := m.wrote(v, d)
	done(&next, v, won)
	if won {
		m.emit(&next, n.but("it finds that it did"))
		return
	}
	m.emit(&next, n.but("the log has moved"))
}

// append stores d as the last event, and checks what must hold of every event.
func (m *machine) append(w *world, d draftID) viewID {
	before := m.entries[m.last(w)].State
	w.seq++
	if w.seq > maxEvents {
		panic("model: more events than fit; choose a smaller configuration")
	}
	id := m.store(d, w.seq)
	w.events[w.seq-1], w.end = id, w.seq
	e := m.entries[id]
	if !m.allows(before, e.event()) {
		m.broken("the log does not allow %s of attempt %d, which a rule made", e.Kind, e.Attempt)
	}
	m.checkEvent(w, before, e)
	switch e.Kind {
	case call.Requested:
		m.enqueue(w, id)
	case call.Decided:
		m.checkDecision(w, e)
	}
	if w.late != 0 && !m.fits(w, w.late) {
		w.late = 0 // it will never be applied
	}
	return e.view
}

func (m *machine) enqueue(w *world, id entryID) {
	for i := range w.msgs {
		if w.msgs[i].entry == 0 {
			a := m.entries[id].State.Last()
			w.msgs[i] = message{entry: id, life: w.life, epoch: w.epoch, late: at(w.now) >= a.Deadline}
			return
		}
	}
	panic("model: more work messages than fit; choose a smaller configuration")
}

// prune forgets the events that nobody reads: all but requests, decisions and the last one.
func (m *machine) prune(w *world) {
	last := m.last(w)
	for i, id := range w.events {
		if id != 0 && id != last && m.entries[id].Kind != call.Requested && m.entries[id].Kind != call.Decided {
			w.events[i] = 0
		}
	}
}

// load returns the stored outcome of the decided attempt n of the view, as outcome.Load does; 0
// when it is not to be found.
func (m *machine) load(w *world, v viewID, n int) outcomeID {
	s := m.views[v]
	if m.without(OwnAttempt) {
		for _, a := range m.entries[m.last(w)].State.Attempts {
			if !a.Open() {
				n, s = a.N, m.entries[m.last(w)].State
			}
		}
	}
	a, ok := s.Attempt(n)
	if !ok || a.Decision == nil {
		return 0
	}
	id := w.events[a.Decision.Seq-1]
	if id == 0 {
		if id = m.last(w); id != 0 && len(m.entries[id].Body) == 0 {
			id = w.events[m.entries[id].State.Last().Admitted-1]
		}
	}
	if id == 0 {
		return 0
	}
	return m.outcomeIn(id, n)
}
