package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// rules asks the product's functions. Leaving out a rule means to change what they are asked or
// what they answered; they themselves are the ones that the product runs. Answers are kept:
// the functions are pure.
type rules struct {
	Config
	*table
	admits  map[admitAsk]admitAnswer
	takes   map[takeAsk]takeAnswer
	decides map[decideAsk]decideAnswer
	wrotes  map[wroteAsk]bool
	beside  map[besideAsk]viewID
}

func newRules(c Config) *rules {
	return &rules{
		Config: c, table: newTable(), admits: map[admitAsk]admitAnswer{}, takes: map[takeAsk]takeAnswer{},
		decides: map[decideAsk]decideAnswer{}, wrotes: map[wroteAsk]bool{}, beside: map[besideAsk]viewID{},
	}
}

func at(ticks uint8) call.UnixMS { return call.UnixMS(ticks) * tick }

// caller returns the index of the caller of a call id, and input what it asks.
func caller(callID string) int { return strings.IndexByte("ABX", callID[0]) }

func input(caller int) string {
	if caller == 2 {
		return "other"
	}
	return "input"
}

// admit asks call.Admit for request number ask, received at since. The event to write carries
// the outcomes that the entry last holds.
func (r *rules) admit(v viewID, ask, since uint8, last entryID) admitAnswer {
	key := admitAsk{v, ask, since, last}
	if a, ok := r.admits[key]; ok {
		return a
	}
	a := r.askAdmit(r.views[v], ask, since, last)
	r.admits[key] = a
	return a
}

type admitAsk struct {
	view       viewID
	ask, since uint8
	last       entryID
}

type admitAnswer struct {
	do      call.AdmitAction
	attempt int
	draft   draftID
}

func (r *rules) askAdmit(s call.State, n, since uint8, last entryID) admitAnswer {
	id := r.Asks[n : n+1]
	fp := input(caller(id))
	if r.without(Binding) {
		id = fmt.Sprint(id, n)
	}
	ask := call.AdmitRequest{
		Owner: call.Owner{CallID: id, Actor: "actor"}, Fingerprint: fp, Now: at(since),
		Deadline: at(since) + call.UnixMS(r.due())*tick,
		Pinned:   call.Pinned{Tool: "tool", ID: "id", Class: r.Class, Fingerprint: fp, KeepSeconds: 60, Lookup: r.Lookup},
		Nonce:    fmt.Sprint("r", n),
	}
	if r.without(Fingerprint) && !s.Empty() {
		ask.Fingerprint = s.Fingerprint
	}
	asked := s
	if r.without(FinalStays) && s.Final() {
		asked = reopened(s)
	}
	v := call.Admit(asked, ask)
	a := admitAnswer{do: v.Do, attempt: v.Attempt}
	switch v.Do {
	case call.Write:
		copy(v.Event.State.Attempts, s.Attempts)
		a.draft = r.draft(v.Event, call.RequestBody{Request: encode(fp), Earlier: r.carried(last)})
	case call.Join:
		e, left := call.JoinAll(s, v.Attempt, []string{id}, ask.Nonce)
		if len(left) > 0 {
			panic("model: no room for a joiner that was admitted")
		}
		a.draft = r.draft(e, nil)
	}
	return a
}

// reopened returns s as if its final outcome were a retryable one.
func reopened(s call.State) call.State {
	s.Attempts = slices.Clone(s.Attempts)
	last := &s.Attempts[len(s.Attempts)-1]
	d := *last.Decision
	d.Status = envelope.RetryableError
	last.Decision = &d
	return s
}

// carried returns the outcomes that the next event of the log takes over from entry e.
func (r *rules) carried(e entryID) []call.Outcome {
	if r.without(CarryOutcomes) || e == 0 {
		return nil
	}
	all, err := r.entries[e].Outcomes()
	if err != nil {
		panic(err)
	}
	return all
}

// take asks call.Take for job j, which has message m in hand.
func (r *rules) take(j job, m message, now uint8, gone bool) takeAnswer {
	key := takeAsk{j.view, m.entry, j.name(), now, j.first, gone}
	if a, ok := r.takes[key]; ok {
		return a
	}
	a := r.askTake(key)
	r.takes[key] = a
	return a
}

type takeAsk struct {
	view  viewID
	msg   entryID
	name  uint8
	now   uint8
	first bool
	gone  bool
}

type takeAnswer struct {
	step  call.NextStep
	draft draftID
	fence uint64
}

func (r *rules) askTake(q takeAsk) takeAnswer {
	m, s := r.entries[q.msg], r.views[q.view]
	p := call.WorkDelivery{
		Attempt: m.Attempt, Admitted: uint64(m.seq), Deliveries: 2, Now: at(q.now),
		By: claimant(q.name), Nonce: claimant(q.name), Gone: func(string) bool { return q.gone }, Alone: s.Suspect(m.Attempt),
	}
	if q.first || r.without(ClaimSecond) {
		p.Deliveries = 1
	}
	bent := r.bendTake(s, &p)
	step, e := call.Take(bent, p)
	a := takeAnswer{step: step, fence: call.Fence(s, p)}
	if step == call.TakeClaim {
		a.draft = r.draft(r.straight(e, s, m), nil)
	}
	return a
}

// bendTake changes what call.Take is asked, for the rules that are left out.
func (r *rules) bendTake(s call.State, p *call.WorkDelivery) call.State {
	if r.without(ClaimFirst) && s.Class == call.SideEffectful {
		s.Class = call.Idempotent
	}
	a, ok := s.Attempt(p.Attempt)
	if ok && r.without(GarbledWaits) {
		s.Attempts = slices.Clone(s.Attempts)
		s.Attempts[a.N-1].Undecoded = false
	}
	if ok && r.without(AdmissionFence) {
		p.Admitted = a.Admitted
	}
	return s
}

// straight returns the claim e, which call.Take made of a bent log, for the log s.
func (r *rules) straight(e call.Event, s call.State, m stored) call.Event {
	e.State.Pinned = s.Pinned
	a := &e.State.Attempts[e.Attempt-1]
	a.At = s.Attempts[e.Attempt-1].At
	if r.without(CountClaims) {
		a.Claim.Count, a.Claim.Alone = 1, 0
	}
	if r.without(FreshSequence) {
		e.State.Seq = uint64(m.seq)
	}
	return e
}

// claimant names a delivery: the nonce of its claim, and its executor's instance.
func claimant(name uint8) string { return fmt.Sprintf("e%d", name) }

// delivery is the inverse of claimant.
func delivery(claimant string) uint8 {
	var n uint8
	if _, err := fmt.Sscanf(claimant, "e%d", &n); err != nil {
		panic(err)
	}
	return n
}

// decideAsk is an attempt, by the message that opened it, that should end; nonce is the
// decider's, claim that of its claim, earlier where it has the earlier outcomes from.
type decideAsk struct {
	view    viewID
	msg     entryID
	end     Ending
	nonce   decider
	mine    bool
	earlier entryID
	sure    bool // nobody has taken it
	late    bool // it was stored at its deadline or later
}

// decider is an executor (below 100) or a guardian.
type decider uint8

const guardians decider = 100

func (d decider) String() string {
	if d < guardians {
		return claimant(uint8(d)) + ".o" // a nonce begins with its instance
	}
	return fmt.Sprint("g", uint8(d-guardians))
}

type decideAnswer struct {
	gone, do, taken bool
	draft           draftID
}

// decide asks call.Decide.
func (r *rules) decide(q decideAsk) decideAnswer {
	if a, ok := r.decides[q]; ok {
		return a
	}
	a := r.askDecide(q)
	r.decides[q] = a
	return a
}

func (r *rules) askDecide(q decideAsk) decideAnswer {
	s, m := r.views[q.view], r.entries[q.msg]
	end, ran := ending(q.end)
	end.Nonce, end.NotTaken = q.nonce.String(), q.sure
	if a, ok := s.Attempt(m.Attempt); ok && q.late {
		end.Stored = a.Deadline
	}
	if q.mine {
		end.Claim = claimant(uint8(q.nonce))
	}
	admitted := uint64(m.seq)
	if a, _ := s.Attempt(m.Attempt); r.without(AdmissionFence) {
		admitted = a.Admitted
	}
	ruling := call.Decide(r.bendDecide(s, m.Attempt), m.Attempt, admitted, end)
	if !ruling.Do {
		return decideAnswer{gone: ruling.Gone, taken: ruling.Taken}
	}
	e := ruling.Event
	e.State.Pinned = s.Pinned
	e.State.Attempts[m.Attempt-1].Claim = s.Attempts[m.Attempt-1].Claim
	if r.without(FreshSequence) {
		e.State.Seq = admitted
	}
	v := verdict{Code: ruling.Code, Effect: ruling.Effect, By: end.Nonce, Attempt: m.Attempt}
	if ran {
		v.Input = m.State.Fingerprint
	}
	body := call.OutcomeBody{Response: encode(v), Earlier: r.carried(q.earlier)}
	return decideAnswer{do: true, draft: r.draft(e, body)}
}

// bendDecide changes the log that call.Decide is asked about, for the rules that are left out.
func (r *rules) bendDecide(s call.State, n int) call.State {
	if r.without(PhaseEffect) && s.Class == call.SideEffectful {
		s.Class = call.Idempotent
	}
	if _, ok := s.Attempt(n); ok && r.without(JointEffect) {
		s.Attempts = slices.Clone(s.Attempts)
		s.Attempts[n-1].Claim = nil
	}
	return s
}

// ending returns what call.Decide is told; ran reports whether the tool's answer depends on the
// input of the message.
func ending(e Ending) (end call.Completion, ran bool) {
	end = call.Completion{By: call.ByExecutor, Cause: call.TimedOut}
	switch e {
	case Success:
		end.Cause, end.Effect, ran = call.ToolEnded, envelope.EffectApplied, true
	case Refused:
		end.Cause, end.Error, end.Effect, ran = call.ToolEnded, envelope.CodeUpstream, envelope.EffectNone, true
	case Unsure:
		end.Cause, end.Error, end.Effect, ran = call.ToolEnded, envelope.CodeUpstream, envelope.EffectUnknown, true
	case confirmed:
		end.Cause, ran = call.Confirmed, true
	case claimLost:
		end.Cause = call.ClaimLost
	case poisoned:
		end.Cause = call.Poisoned
	case timedOut:
		end.By = call.ByDeadline
	case deserted:
		end.By, end.Cause = call.ByDispatcher, call.PoolAbsent
	case unbuilt:
		end.By, end.Cause = call.ByDispatcher, call.BuildAbsent
	case cancelled:
		end.By, end.Cause = call.ByCanceller, call.Cancelled
	}
	return end, ran
}

type wroteAsk struct {
	view  viewID
	draft draftID
}

// wrote asks State.Wrote.
func (r *rules) wrote(v viewID, d draftID) bool {
	q := wroteAsk{v, d}
	yes, ok := r.wrotes[q]
	if !ok {
		yes = !r.without(OwnNonce) && r.views[v].Wrote(r.drafts[d].Event)
		r.wrotes[q] = yes
	}
	return yes
}

type besideAsk struct {
	view   viewID
	claims [maxAttempts]uint8
}

// withClaims returns the log as its readers see it when claims are records beside it.
func (r *rules) withClaims(v viewID, claims [maxAttempts]uint8) viewID {
	if !r.without(ClaimInLog) || v == 0 {
		return v
	}
	q := besideAsk{v, claims}
	seen, ok := r.beside[q]
	if !ok {
		s := r.views[v]
		s.Attempts = slices.Clone(s.Attempts)
		for i := range s.Attempts {
			if by := claims[i]; by != 0 && s.Attempts[i].Claim == nil {
				s.Attempts[i].Claim = &call.Claim{By: claimant(by), Nonce: claimant(by), Count: 1}
			}
		}
		seen = r.view(s)
		r.beside[q] = seen
	}
	return seen
}
