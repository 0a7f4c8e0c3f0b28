package call_test

import (
	"fmt"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// start is the bus time at which the logs of the tests begin.
const start call.UnixMS = 1_700_000_000_000

// journal is a log as it grows: every event is folded at the next sequence.
type journal struct {
	t      *testing.T
	state  call.State
	events []call.Event
	seqs   []uint64
	dry    bool // what is admitted is a dry run
}

func (j *journal) add(e call.Event) call.State {
	j.t.Helper()
	if e.State.Seq != j.state.Seq {
		j.t.Fatalf("event %s expects the log at %d, it is at %d", e.Kind, e.State.Seq, j.state.Seq)
	}
	seq := j.state.Seq + uint64(1+len(j.events)%3) // other logs have the sequences between
	j.events, j.seqs = append(j.events, e), append(j.seqs, seq)
	j.state = call.Fold(e, seq)
	return j.state
}

func facts(class call.EffectClass) call.Pinned {
	return call.Pinned{
		Tenant: "acme", Tool: "web.fetch", ID: "id", Fn: "fetch", Version: "1.0.0", Class: class, Pool: "default",
		Fingerprint: "fp", ArgsHash: "args", KeepSeconds: 3600,
	}
}

func ask(class call.EffectClass, callID string) call.AdmitRequest {
	return call.AdmitRequest{
		Owner: call.Owner{CallID: callID, Actor: "agent", Reply: "_INBOX." + callID}, Pinned: facts(class), Fingerprint: "fp",
		Deadline: start + 15_000, Priority: envelope.PriorityNormal, Now: start, Nonce: "q-" + callID,
	}
}

// admit writes what Admit says for callID.
func (j *journal) admit(class call.EffectClass, callID string) call.State {
	j.t.Helper()
	a := ask(class, callID)
	a.Pinned.DryRun = j.dry
	v := call.Admit(j.state, a)
	switch v.Do {
	case call.Write:
		return j.add(v.Event)
	case call.Join:
		e, left := call.JoinAll(j.state, v.Attempt, []string{callID}, "j-"+callID)
		if len(left) > 0 {
			j.t.Fatalf("no room for %s", callID)
		}
		return j.add(e)
	}
	j.t.Fatalf("admission of %s: %+v", callID, v)
	return call.State{}
}

// pickup is a first delivery of the newest attempt.
func (j *journal) pickup(nonce string) call.WorkDelivery {
	a := j.state.Last()
	return call.WorkDelivery{
		Attempt: a.N, Admitted: a.Admitted, Deliveries: 1, Now: start + 1, By: "default/e-" + nonce, Nonce: nonce,
		Gone: func(string) bool { return true },
	}
}

// claim lets the second delivery of the newest attempt claim it.
func (j *journal) claim(nonce string) call.State {
	j.t.Helper()
	return j.claimWith(j.pickup(nonce))
}

// claimAlone is claim by an executor in which nothing else runs.
func (j *journal) claimAlone(nonce string) call.State {
	j.t.Helper()
	p := j.pickup(nonce)
	p.Alone = true
	return j.claimWith(p)
}

func (j *journal) claimWith(p call.WorkDelivery) call.State {
	j.t.Helper()
	p.Deliveries = 2
	step, e := call.Take(j.state, p)
	if step != call.TakeClaim {
		j.t.Fatalf("step %d instead of a claim", step)
	}
	return j.add(e)
}

// decide ends the newest attempt.
func (j *journal) decide(end call.Completion) call.State {
	j.t.Helper()
	a := j.state.Last()
	if end.Nonce == "" {
		end.Nonce = fmt.Sprint("o", a.N)
	}
	r := call.Decide(j.state, a.N, a.Admitted, end)
	if !r.Do {
		j.t.Fatalf("ruling %+v", r)
	}
	return j.add(r.Event)
}

// fail ends the newest attempt with a retryable error and effect none.
func (j *journal) fail() call.State {
	j.t.Helper()
	end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Error: envelope.CodeUpstream,
		Effect: envelope.EffectNone}
	if a := j.state.Last(); a.Claim != nil {
		end.Claim = a.Claim.Nonce
	} else if !j.state.Class.MayRunAgain() {
		end = call.Completion{Cause: call.Cancelled, By: call.ByCanceller}
	}
	return j.decide(end)
}

// succeed ends the newest attempt with success.
func (j *journal) succeed() call.State {
	j.t.Helper()
	end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Effect: envelope.EffectApplied, Output: "hash",
		Now: start + 20}
	if a := j.state.Last(); a.Claim != nil {
		end.Claim, end.Fence = a.Claim.Nonce, a.Claim.Fence
	}
	return j.decide(end)
}

func newJournal(t *testing.T) *journal { return &journal{t: t} }
