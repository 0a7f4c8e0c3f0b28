package model

import "github.com/seed-018f16cc/toolbus/internal/call"

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
	m.ask(w, i, gone)
	if m.Suspect && !gone {
		m.ask(w, i, true)
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

func (m *machine) ask(w *world, i int, gone bool) {
	j := w.jobs[i]
	n := note{verb: "the executor looks at", subject: "delivery", number: j.name()}
	if j.draft != 0 {
		m.claim(w, i, j.draft, n)
		return
	}
	j.first = j.first && (w.beaten(w.msgs[j.msg]) || m.without(BeatFirst))
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

var stepNames = map[call.NextStep]string{
	call.Drop: "it belongs to no attempt", call.Adopt: "decided already", call.Expire: "past its deadline",
	call.Run:       "it runs it",
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
	case total > 0 && m.Lookup != call.LookupNo:
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

// deciding asks call.Decide and writes, as outcome.Decide.
func (m *machine) deciding(w *world, i int) {
	j := w.jobs[i]
	msg := w.msgs[j.msg].entry
	n := note{verb: "the executor decides", subject: "delivery", number: j.name()}
	draft := j.draft
	if draft == 0 {
		a := m.decide(decideAsk{
			view: j.view, msg: msg, end: j.end, nonce: decider(j.name()), mine: j.mine, earlier: msg,
			sure: j.end == expired && j.first, late: w.msgs[j.msg].late,
		})
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
