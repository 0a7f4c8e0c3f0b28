package model

// note says in words what a step does; subject is a request, a delivery or a watch.
type note struct {
	verb    string
	subject string
	number  uint8
	suffix  string
}

func (n note) but(suffix string) note {
	n.suffix = suffix
	return n
}

// step is one possible next state.
type step struct {
	world
	note note
	bad  string // the invariant that it breaks
}

// machine enumerates the steps of a world. Every process may be frozen at any point, because
// every step of it is possible and none is forced.
type machine struct {
	*rules
	steps []step
	bad   string // found while the current step is made
	ended map[viewID]string
}

func newMachine(c Config) *machine {
	return &machine{rules: newRules(c), ended: map[viewID]string{}}
}

func (m *machine) start() world {
	w := world{
		crashes: uint8(m.Crashes), lost: uint8(m.Lost), lates: uint8(m.Late),
		silences: uint8(m.Silences), lags: uint8(m.Lags), strangers: uint8(m.Strangers),
		recreates: uint8(m.Recreates), expiries: uint8(m.Expiries), cancels: uint8(m.Cancels),
	}
	if !m.Absent {
		w.epoch = 1
	}
	return w
}

// next returns every step from w. The result is valid until the next call.
func (m *machine) next(w *world) []step {
	m.steps = m.steps[:0]
	m.environment(w)
	for i := range w.desks {
		m.dispatcher(w, i)
	}
	for i := range w.jobs {
		m.executor(w, i)
	}
	for i := range w.guards {
		m.guardian(w, i)
	}
	return m.steps
}

// emit adds a step that leads to w.
func (m *machine) emit(w *world, n note) {
	if m.Config.Expiries == 0 {
		m.prune(w)
	}
	w.sort()
	if m.bad == "" {
		m.bad = m.doomed(w)
	}
	m.steps = append(m.steps, step{*w, n, m.bad})
	m.bad = ""
}

// environment enumerates what happens to the processes rather than in them.
func (m *machine) environment(w *world) {
	if int(w.now) < m.Ticks {
		next := *w
		next.now++
		m.emit(&next, note{verb: "time passes"})
	}
	if w.silences > 0 {
		next := *w
		next.silences--
		next.epoch++
		m.emit(&next, note{verb: [2]string{"the heartbeats end", "heartbeats begin"}[next.epoch%2]})
	}
	m.arrivals(w)
	m.deliveries(w)
	m.watch(w)
	if w.late != 0 && m.fits(w, w.late) {
		next := *w
		d := next.late
		next.late = 0
		m.append(&next, d)
		m.emit(&next, note{verb: "the late write arrives"})
	}
	if w.recreates > 0 && m.last(w) != 0 {
		next := *w
		next.recreates--
		for i := range next.msgs {
			if next.msgs[i].life == w.life {
				next.msgs[i].seen, next.msgs[i].acked = 1, false // older than the consumer
				if m.without(ClaimOld) {
					next.msgs[i].seen = 0
				}
			}
		}
		m.emit(&next, note{verb: "the consumer is made anew"})
	}
	m.expire(w)
	m.strangers(w)
}

// expire lets a decided log run out of its retention. An executor whose tool is about to start
// is left out: it would run for a log that is gone, and the deadline of its run ends it long before.
func (m *machine) expire(w *world) {
	last := m.last(w)
	if w.expiries == 0 || last == 0 {
		return
	}
	a := m.entries[last].State.Last()
	if a.Open() || at(w.now) < a.Deadline || w.jobs[0].at == running || w.jobs[1].at == running {
		return
	}
	next := *w
	next.expiries--
	next.life++
	next.events = [maxEvents]entryID{}
	next.told, next.bound, next.effects, next.runs = world{}.told, world{}.bound, world{}.effects, world{}.runs
	next.none, next.success, next.late, next.end, next.garbled = world{}.none, false, 0, 0, 0
	m.emit(&next, note{verb: "the log expires"})
}

// arrivals lets every request that was not sent yet reach a dispatcher that is free. What it
// writes first it writes without having read anything.
func (m *machine) arrivals(w *world) {
	free := 0
	for free < desks && w.desks[free].busy {
		free++
	}
	if free == desks {
		return
	}
	for i := range len(m.Asks) {
		if w.asks[i] || i > 0 && m.Asks[i-1] == m.Asks[i] && !w.asks[i-1] {
			continue // sent, or the same as the one before
		}
		next := *w
		next.asks[i] = true
		next.desks[free] = desk{busy: true, ask: uint8(i), since: w.now}
		m.desk(&next, free)
	}
}

// deliveries hands every message that may be delivered to an executor that is free.
func (m *machine) deliveries(w *world) {
	if w.jobs[0].at != idle { // idle ones come first
		return
	}
	for i, msg := range w.msgs {
		if msg.entry == 0 || msg.acked || int(msg.total) >= m.Deliveries || msg.life != w.life {
			continue
		}
		next := *w
		got := &next.msgs[i]
		got.total++
		got.seen++
		j := job{at: taking, msg: uint8(i), nth: got.total, first: got.seen == 1, view: m.seen(w, m.entries[msg.entry].view)}
		if !j.first {
			j.view = m.read(w)
		}
		next.jobs[0] = j
		m.emit(&next, note{verb: "an executor gets", subject: "delivery", number: j.name()})
	}
}

// watch lets a guardian find an attempt past its deadline, or its owner cancel it.
func (m *machine) watch(w *world) {
	last := m.last(w)
	if last == 0 || int(w.watches) >= m.Watches || w.guards[0].busy {
		return
	}
	a := m.entries[last].State.Last()
	if !a.Open() {
		return
	}
	for i, msg := range w.msgs {
		if msg.entry == 0 || uint64(m.entries[msg.entry].seq) != a.Admitted {
			continue
		}
		if at(w.now) >= a.Deadline {
			next := *w
			m.guard(&next, uint8(i), timedOut)
			m.emit(&next, note{verb: "a guardian times out", subject: "watch", number: next.watches})
		}
		if w.epoch%2 == 0 {
			next := *w
			m.guard(&next, uint8(i), deserted)
			m.emit(&next, note{verb: "a guardian finds nobody alive for", subject: "watch", number: next.watches})
			next = *w
			m.guard(&next, uint8(i), unbuilt)
			m.emit(&next, note{verb: "a guardian finds only other builds for", subject: "watch", number: next.watches})
		}
		if w.cancels > 0 {
			next := *w
			next.cancels--
			m.guard(&next, uint8(i), cancelled)
			m.emit(&next, note{verb: "the owner cancels by", subject: "watch", number: next.watches})
		}
	}
}
