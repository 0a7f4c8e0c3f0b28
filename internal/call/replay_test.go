package call_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// TestRandomLogs grows logs by whatever callers, executors and deciders may want, and holds them
// against what a log promises.
func TestRandomLogs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		g := &grower{journal: newJournal(t), rand: rand.New(rand.NewPCG(seed, 0)),
			class: []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful}[seed%3]}
		if g.class == call.SideEffectful {
			g.lookup = []call.Lookup{"", call.LookupYes, call.LookupNo}[seed/3%3]
		}
		for range 40 {
			g.step()
		}
		g.check(seed)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// grower grows one log at random.
type grower struct {
	*journal
	rand   *rand.Rand
	class  call.EffectClass
	lookup call.Lookup
	names  int
}

// put adds an event, which the log must allow.
func (g *grower) put(e call.Event) {
	if err := g.state.Allows(e); err != nil {
		g.t.Errorf("%s after %+v: %v", e.Kind, g.state, err)
	}
	g.add(e)
}

func (g *grower) step() {
	g.names++
	nonce := fmt.Sprint("n", g.names)
	switch g.rand.IntN(4) {
	case 0, 1:
		g.ask(fmt.Sprint("caller", g.rand.IntN(12)), nonce)
	case 2:
		g.pick(nonce)
	case 3:
		g.end(nonce)
	}
}

func (g *grower) ask(callID, nonce string) {
	a := ask(g.class, callID)
	a.Nonce, a.Pinned.Lookup = nonce, g.lookup
	if g.rand.IntN(10) == 0 {
		a.Fingerprint = "other"
	}
	v := call.Admit(g.state, a)
	bound, known := g.state.AttemptOf(callID)
	switch {
	case !g.state.Empty() && a.Fingerprint != g.state.Fingerprint:
		if v.Code != envelope.CodeKeyReused {
			g.t.Errorf("another input is answered %+v", v)
		}
	case known && v.Attempt != bound.N:
		g.t.Errorf("%s is bound to attempt %d and told %d", callID, bound.N, v.Attempt)
	case v.Do == call.Write && g.state.Final():
		g.t.Error("an attempt is opened after a final outcome")
	case v.Do == call.Write:
		g.put(v.Event)
	case v.Do == call.Join:
		e, left := call.JoinAll(g.state, v.Attempt, []string{callID, callID + "'", callID}, nonce)
		if len(left) > 0 {
			g.t.Errorf("no room for %v", left)
		}
		g.put(e)
	}
}

func (g *grower) pick(nonce string) {
	if g.state.Empty() {
		return
	}
	a := g.state.Attempts[g.rand.IntN(len(g.state.Attempts))]
	p := call.WorkDelivery{
		Attempt: a.N, Admitted: a.Admitted, Deliveries: 1 + g.rand.IntN(2), Now: start + call.UnixMS(g.rand.IntN(16_000)),
		By: "default/" + nonce, Nonce: nonce, Gone: func(string) bool { return g.rand.IntN(2) == 0 },
	}
	step, e := call.Take(g.state, p)
	runs := step == call.Run || step == call.TakeClaim
	if runs && (!a.Open() || a.Claim != nil && g.class == call.SideEffectful) {
		g.t.Errorf("step %d for attempt %+v", step, a)
	}
	if step == call.TakeClaim {
		g.put(e)
	}
}

func (g *grower) end(nonce string) {
	if g.state.Empty() {
		return
	}
	a := g.state.Attempts[g.rand.IntN(len(g.state.Attempts))]
	codes := []envelope.Code{"", envelope.CodeUpstream, envelope.CodeToolFault, envelope.CodeOutput}
	effects := []envelope.Effect{envelope.EffectNone, envelope.EffectApplied, envelope.EffectUnknown}
	end := call.Completion{
		Cause: call.Cause(1 + g.rand.IntN(int(call.Unrunnable))), By: call.ByExecutor, Nonce: nonce,
		Error: codes[g.rand.IntN(len(codes))], Effect: effects[g.rand.IntN(len(effects))],
	}
	if a.Claim != nil && g.rand.IntN(2) == 0 {
		end.Claim, end.Nonce = a.Claim.Nonce, call.Instance(a.Claim.Nonce)+"."+nonce // who holds it
	}
	if end.Error == "" && end.Cause != call.ToolEnded || end.Error != "" && end.Cause == call.Confirmed {
		return // no such ending
	}
	r := call.Decide(g.state, a.N, a.Admitted, end)
	if r.Do != a.Open() || r.Gone {
		g.t.Errorf("ruling %+v for attempt %+v", r, a)
	}
	if r.Do {
		g.put(r.Event)
	}
}

// check holds the log against its promises.
func (g *grower) check(seed uint64) {
	g.t.Helper()
	if diff := cmp.Diff(g.replay(), g.state); diff != "" {
		g.t.Errorf("seed %d: the last event is not the state: %s", seed, diff)
	}
	fence := uint64(0)
	for i, e := range g.events {
		if a, _ := e.State.Attempt(e.Attempt); e.Kind == call.Claimed {
			if got := call.Fold(e, g.seqs[i]).Attempts[a.N-1].Claim.Fence; got <= fence {
				g.t.Errorf("seed %d: fence %d after %d", seed, got, fence)
			} else {
				fence = got
			}
		}
		if i > 0 && call.Fold(g.events[i-1], g.seqs[i-1]).Final() {
			g.t.Errorf("seed %d: %s was written after a final outcome", seed, e.Kind)
		}
	}
	for _, a := range g.state.Attempts {
		open := a.Open() && a.N < len(g.state.Attempts)
		twice := a.Decision != nil && a.Decision.Status == envelope.RetryableError && g.class == call.SideEffectful &&
			a.Decision.Effect != envelope.EffectNone
		if open || twice || len(a.Joined) > call.MaxJoined || a.Claim != nil && g.class == call.SideEffectful &&
			a.Claim.Count > 1 {
			g.t.Errorf("seed %d: attempt %+v", seed, a)
		}
	}
}

// replay folds all events one by one, each by what it alone says: the state as if events did not
// carry it.
func (g *grower) replay() call.State {
	var s call.State
	for i, e := range g.events {
		if s.Seq = g.seqs[i]; e.Kind == call.Requested {
			a := e.State.Attempts[e.Attempt-1]
			s.Pinned = e.State.Pinned
			s.Attempts = append(s.Attempts, call.Attempt{
				N: e.Attempt, Owner: a.Owner, Nonce: e.Nonce, Admitted: s.Seq, At: a.At, Deadline: a.Deadline, Priority: a.Priority,
			})
			continue
		}
		a, said := &s.Attempts[e.Attempt-1], e.State.Attempts[e.Attempt-1]
		switch e.Kind {
		case call.Joined:
			for _, id := range said.Joined {
				if !slices.Contains(a.Joined, id) {
					a.Joined = append(a.Joined, id)
				}
			}
		case call.Claimed:
			count := 1
			if a.Claim != nil {
				count += a.Claim.Count
			}
			a.Claim = &call.Claim{By: said.Claim.By, Nonce: e.Nonce, Fence: s.Seq, Count: count, At: said.Claim.At}
		case call.Decided:
			d := *said.Decision
			d.Seq = s.Seq
			a.Decision = &d
		}
	}
	return s
}
