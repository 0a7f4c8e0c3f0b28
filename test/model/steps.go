package model

import (
	"github.com/seed-018f16cc/toolbus/call"
)

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
	return world{
		crashes: uint8(m.Crashes), lost: uint8(m.Lost), lates: uint8(m.Late),
		recreates: uint8(m.Recreates), expiries: uint8(m.Expiries), cancels: uint8(m.Cancels),
	}
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
	if last := m.last(w); w.recreates > 0 && last != 0 && at(w.now)-m.entries[last].State.Last().At >= call.Unclaimed {
		next := *w
		next.recreates--
		for i := range next.msgs {
			if next.msgs[i].life == w.life {
				next.msgs[i].seen, next.msgs[i].acked = 0, false
			}
		}
		m.emit(&next, note{verb: "the consumer is made anew"})
	}
	m.expire(w)
}

// expire lets a decided log run out of its retention. An executor whose tool is about to start
// is left out: that is what remains of H4, and the deadline of its run ends it long before.
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
	next.none, next.success, next.late = world{}.none, false, 0
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
		if d.view != 0 && m.seqOf(last) != m.views[d.view].Seq { // it reads what to carry forward
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
	m.write(w, draft, n,
		func(next *world) { next.desks[i].draft = draft },
		func(next *world, v viewID, _ bool) { m.place(next, i, v) })
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
	if last := m.last(w); v != 0 && m.seqOf(last) == m.views[v].Seq {
		return last
	}
	return 0
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

// executor is the next step of job i.
func (m *machine) executor(w *world, i int) {
	j := w.jobs[i]
	switch j.at {
	case idle:
		return
	case taking:
		m.taking(w, i)
	case running:
		m.running(w, i)
	case deciding:
		m.deciding(w, i)
	case replying:
		m.replying(w, i)
		return // a crash here is an ack that gets lost
	}
	if w.crashes > 0 {
		next := *w
		next.crashes--
		next.gone |= 1 << j.name()
		next.jobs[i] = job{}
		m.emit(&next, note{verb: "the executor crashes that has", subject: "delivery", number: j.name()})
	}
}

// taking asks call.Take what to do, with every answer that heartbeats may give.
func (m *machine) taking(w *world, i int) {
	gone := m.gone(w, w.jobs[i])
	m.take1(w, i, gone)
	if m.Suspect && !gone {
		m.take1(w, i, true)
	}
}

// gone reports whether the claimer of the attempt that j has in hand is known to be gone.
func (m *machine) gone(w *world, j job) bool {
	a, ok := m.views[j.view].Attempt(m.entries[w.msgs[j.msg].entry].Attempt)
	if !ok || a.Claim == nil {
		return false
	}
	return m.without(LiveClaim) || w.gone&(1<<delivery(a.Claim.By)) != 0
}

func (m *machine) take1(w *world, i int, gone bool) {
	j := w.jobs[i]
	n := note{verb: "the executor looks at", subject: "delivery", number: j.name()}
	if j.draft != 0 {
		m.claim(w, i, j.draft, n)
		return
	}
	a := m.take(j, w.msgs[j.msg], w.now, gone)
	if a.step == call.TakeClaim {
		n.verb = "the executor claims"
		m.claim(w, i, a.draft, n)
		return
	}
	next := *w
	m.follow(&next, &next.jobs[i], a)
	m.emit(&next, n.but(stepNames[a.step]))
}

var stepNames = map[call.Step]string{
	call.Drop: "it belongs to no attempt", call.Adopt: "decided already", call.Expire: "past its deadline", call.Run: "it runs it",
	call.WaitClaim: "another one runs it", call.AskTool: "it asks the tool's lookup", call.DeadLetter: "a poison call",
}

// follow does what call.Take said, as the executor's follow.
func (m *machine) follow(w *world, j *job, a takeAnswer) {
	switch a.step {
	case call.Drop:
		m.ack(w, j)
	case call.Adopt:
		j.out, j.at, j.end = m.load(w, j.view, m.attempt(w, j)), replying, 0
	case call.Expire:
		j.at, j.end = deciding, expired
	case call.Run:
		m.run(w, j, a.fence)
	case call.WaitClaim:
		*j = job{}
	case call.AskTool:
		m.lookup(w, j, a.fence)
	case call.DeadLetter:
		j.at, j.end = deciding, poisoned
	}
}

// claim writes a claim; what the executor does with it it finds out by asking again.
func (m *machine) claim(w *world, i int, d draftID, n note) {
	if m.without(ClaimInLog) {
		next := *w
		j := &next.jobs[i]
		if record := &next.claims[m.attempt(w, j)-1]; *record == 0 {
			*record, j.mine = j.name(), true
		}
		j.view = m.read(&next)
		m.emit(&next, n)
		return
	}
	m.write(w, d, n,
		func(next *world) { next.jobs[i].draft = d },
		func(next *world, v viewID, won bool) {
			j := &next.jobs[i]
			j.view, j.draft, j.mine = v, 0, won
		})
}

// lookup asks the tool whether the effect of the call was committed.
func (m *machine) lookup(w *world, j *job, fence uint64) {
	m.takeover(w, j)
	total := uint8(0)
	for _, n := range w.effects {
		total += n
	}
	switch {
	case total > 0:
		j.at, j.end = deciding, confirmed
	case m.without(ConfirmOnly):
		m.run(w, j, fence)
	default:
		j.at, j.end = deciding, claimLost
	}
}

// running lets the tool end in every way; its effect and its end are one step, a freeze fits
// before and after.
func (m *machine) running(w *world, i int) {
	n := note{verb: "the tool ends of", subject: "delivery", number: w.jobs[i].name()}
	for _, e := range m.Endings {
		next := *w
		if e != Refused {
			m.effect(&next, &next.jobs[i])
		}
		next.jobs[i].at, next.jobs[i].end = deciding, e
		m.emit(&next, n.but(endingNames[e]))
	}
	if a, ok := m.views[w.jobs[i].view].Attempt(m.attempt(w, &w.jobs[i])); ok && at(w.now) >= a.Deadline {
		next := *w
		m.effect(&next, &next.jobs[i])
		next.jobs[i].at, next.jobs[i].end = deciding, killed
		m.emit(&next, n.but(endingNames[killed]))
	}
}

var endingNames = map[Ending]string{
	Success: "with success", Refused: "with an error and no effect", Unsure: "with an error after its effect",
	killed: "killed at the deadline after its effect",
}

// deciding asks call.Decide and writes, as settle.Decide.
func (m *machine) deciding(w *world, i int) {
	j := w.jobs[i]
	msg := w.msgs[j.msg].entry
	n := note{verb: "the executor decides", subject: "delivery", number: j.name()}
	draft := j.draft
	if draft == 0 {
		a := m.decide(decideAsk{j.view, msg, j.end, decider(j.name()), j.mine, msg})
		if !a.do {
			next := *w
			m.adopt(&next, &next.jobs[i], a.gone)
			m.emit(&next, n.but("it finds it decided"))
			return
		}
		draft = a.draft
	}
	m.write(w, draft, n,
		func(next *world) { next.jobs[i].draft = draft },
		func(next *world, v viewID, won bool) {
			j := &next.jobs[i]
			j.view, j.draft = v, 0
			if won {
				j.out, j.at, j.end = m.load(next, v, m.attempt(next, j)), replying, 0
			}
		})
}

func (m *machine) adopt(w *world, j *job, gone bool) {
	if gone {
		m.ack(w, j)
		return
	}
	m.notOwn(w, j.view, m.attempt(w, j), decider(j.name()))
	j.out, j.at, j.end = m.load(w, j.view, m.attempt(w, j)), replying, 0
}

// replying tells the owner and acknowledges; the acknowledgement may get lost.
func (m *machine) replying(w *world, i int) {
	j := w.jobs[i]
	n := note{verb: "the executor replies for", subject: "delivery", number: j.name()}
	next := *w
	m.tellOwner(&next, w.msgs[j.msg], j.out)
	unacked := next
	m.ack(&next, &next.jobs[i])
	m.emit(&next, n)
	if !w.msgs[j.msg].acked && int(w.msgs[j.msg].total) < m.Deliveries {
		unacked.jobs[i] = job{}
		m.emit(&unacked, n.but("the ack is lost"))
	}
}

func (m *machine) ack(w *world, j *job) {
	w.msgs[j.msg].acked = true
	*j = job{}
}

func (m *machine) attempt(w *world, j *job) int { return m.entries[w.msgs[j.msg].entry].Attempt }

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
		if w.cancels > 0 {
			next := *w
			next.cancels--
			m.guard(&next, uint8(i), cancelled)
			m.emit(&next, note{verb: "the owner cancels by", subject: "watch", number: next.watches})
		}
	}
}

func (m *machine) guard(w *world, msg uint8, end Ending) {
	w.watches++
	w.guards[0] = guard{busy: true, view: m.read(w), msg: msg, end: end, nth: w.watches}
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
			if !a.gone {
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
	return decideAsk{g.view, w.msgs[g.msg].entry, g.end, guardians + decider(g.nth), false, earlier}
}
