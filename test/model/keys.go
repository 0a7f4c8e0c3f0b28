package model

import (
	"fmt"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// pair is one state of two calls of one side-effectful tool: two actors use the same key, each for its own call.
// What the tool has done it finds again under the key that it was given.
type pair struct {
	views [2]viewID
	runs  [2]run
	done  [2]bool // the tool has done what the call asks for
}

// run is where the run of a call stands.
type run uint8

const (
	unstarted run = iota
	started
	gone // its executor died
)

// ExploreKeys visits every state of two calls under one key of their callers: a lookup confirms the effects of its
// own call only. off are the rules that are left out.
func ExploreKeys(off Rule) Result {
	k := &keys{rules: newRules(Config{Class: call.SideEffectful, Off: off})}
	return search(pair{}, k.next)
}

type keys struct {
	*rules
	moves []move[pair]
}

var actors = [2]string{"A", "B"}

// facts returns those of the call of an actor, under the key that both use.
func (k *keys) facts(i int) call.Pinned {
	req := &envelope.Request{ToolID: "tool", Fn: "fn", Context: envelope.RequestContext{ActorID: actors[i]}}
	req.Constraints.IdempotencyKey = "key"
	return call.Pinned{Tool: "tool", ID: envelope.CallKeyID("tenant", req), Class: call.SideEffectful}
}

// key returns the key that the tool is given for a call, in its run and in a lookup.
func (k *keys) key(i int) string {
	if k.without(OwnKey) {
		return "key"
	}
	return k.facts(i).ID
}

func (k *keys) next(w pair) []move[pair] {
	k.moves = nil
	for i := range actors {
		s := k.views[w.views[i]]
		switch {
		case s.Empty():
			ask := call.AdmitRequest{Owner: call.Owner{CallID: actors[i]}, Deadline: at(1), Pinned: k.facts(i)}
			k.append(w, i, call.Admit(s, ask).Event, "asks")
		case s.Last().Open():
			k.step(w, i, s)
		}
	}
	return k.moves
}

// step is what may happen to an open call.
func (k *keys) step(w pair, i int, s call.State) {
	switch w.runs[i] {
	case unstarted:
		_, e := call.Take(s, call.WorkDelivery{Attempt: 1, Admitted: 1, Deliveries: 1, By: "first", Nonce: "first"})
		w.runs[i] = started
		k.append(w, i, e, "is claimed by an executor")
	case started:
		dead := w
		dead.runs[i] = gone
		k.did(dead, i, "loses its executor")
		if !w.done[i] {
			w.done[i] = true
			k.did(w, i, "has its effect")
			return
		}
		k.decide(w, i, s, call.Completion{Cause: call.ToolEnded, Claim: "first", Effect: envelope.EffectApplied}, "ends")
	case gone:
		p := call.WorkDelivery{Attempt: 1, Admitted: 1, Deliveries: 2, By: "second", Nonce: "second"}
		p.Gone = func(string) bool { return true }
		if step, _ := call.Take(s, p); step != call.AskTool {
			panic("model: another executor does not ask the tool")
		}
		cause := call.ClaimLost
		if k.lookup(w, i) {
			cause = call.Confirmed
		}
		k.decide(w, i, s, call.Completion{Cause: cause}, "is looked up by another executor")
	}
}

// lookup asks the tool whether it has done what it was given the key of call i for.
func (k *keys) lookup(w pair, i int) bool {
	for n, done := range w.done {
		if done && k.key(n) == k.key(i) {
			return true
		}
	}
	return false
}

func (k *keys) decide(w pair, i int, s call.State, end call.Completion, what string) {
	end.By, end.Nonce = call.ByExecutor, "o"
	ruling := call.Decide(s, 1, 1, end)
	status := ruling.Event.State.Last().Decision.Status
	k.append(w, i, ruling.Event, fmt.Sprintf("%s\t=> %s, effect %s", what, status, ruling.Effect))
	if status == envelope.Success && !w.done[i] {
		k.moves[len(k.moves)-1].bad = "the call of " + actors[i] + " succeeded by the effect of another"
	}
}

func (k *keys) append(w pair, i int, e call.Event, what string) {
	w.views[i] = k.view(call.Fold(e, e.State.Seq+1))
	k.did(w, i, what)
}

func (k *keys) did(w pair, i int, what string) {
	k.moves = append(k.moves, move[pair]{to: w, did: "the call of " + actors[i] + " " + what})
}
