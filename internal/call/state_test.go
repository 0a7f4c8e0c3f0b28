package call_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

func TestEmpty(t *testing.T) {
	t.Parallel()
	var s call.State
	if !s.Empty() || s.Final() {
		t.Errorf("the zero state: empty %t, final %t", s.Empty(), s.Final())
	}
	if _, ok := s.Attempt(1); ok {
		t.Error("the zero state has an attempt")
	}
	if _, ok := s.AttemptOf("A"); ok {
		t.Error("the zero state knows a caller")
	}
}

func TestClass(t *testing.T) {
	t.Parallel()
	for class, want := range map[call.EffectClass]bool{call.Pure: true, call.Idempotent: true, call.SideEffectful: false,
		"": false, "new": false} {
		if got := class.MayRunAgain(); got != want {
			t.Errorf("%q: %t", class, got)
		}
	}
}

func TestFoldPutsSequencesWhereTheyBelong(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.SideEffectful, "A")
	q := j.seqs[0]
	j.admit(call.SideEffectful, "B")
	j.claim("c")
	c := j.seqs[2]
	j.fail()
	o := j.seqs[3]
	j.admit(call.SideEffectful, "C")
	q2 := j.seqs[4]
	first, second := j.state.Attempts[0], j.state.Attempts[1]
	got := []uint64{first.Admitted, first.Claim.Fence, first.Decision.Seq, second.Admitted, j.state.Seq}
	if diff := cmp.Diff([]uint64{q, c, o, q2, q2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFoldChangesNothingInPlace(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	j.claim("c")
	j.succeed()
	for i, e := range j.events {
		once, again := call.Fold(e, 100), call.Fold(e, 200)
		if once.Seq != 100 || again.Seq != 200 {
			t.Errorf("event %d: sequences %d and %d", i, once.Seq, again.Seq)
		}
		if diff := cmp.Diff(call.Fold(e, j.seqs[i]), call.Fold(e, j.seqs[i])); diff != "" {
			t.Errorf("event %d: %s", i, diff)
		}
	}
	for i, e := range j.events {
		own := e
		own.State = call.Fold(e, 0)
		if diff := cmp.Diff(call.Fold(e, j.seqs[i]), own.Folded(j.seqs[i])); diff != "" {
			t.Errorf("event %d: %s", i, diff)
		}
	}
	last := j.events[2]
	if call.Fold(last, 100); last.State.Last().Decision.Seq != 0 {
		t.Error("the event has changed")
	}
}

// TestFoldOfStrangers folds events that no writer of ours makes.
func TestFoldOfStrangers(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Pure, "A")
	for name, e := range map[string]call.Event{
		"no such attempt":    {Kind: call.Requested, Attempt: 7, State: j.state},
		"an unknown kind":    {Kind: "p", Attempt: 1, State: j.state},
		"a claim without":    {Kind: call.Claimed, Attempt: 1, State: j.state},
		"a decision without": {Kind: call.Decided, Attempt: 1, State: j.state},
	} {
		want := j.state
		want.Seq = 99
		if diff := cmp.Diff(want, call.Fold(e, 99)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRef(t *testing.T) {
	t.Parallel()
	s := call.State{Pinned: facts(call.Pure)}
	if got := s.Ref(); got != "web_2efetch.id" {
		t.Error(got)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	a := j.admit(call.Pure, "A").Last()
	if call.At(a.Due()) != a.Deadline || !a.Due().Equal(a.Deadline.Time()) {
		t.Errorf("due %v, deadline %d", a.Due(), a.Deadline)
	}
}

func TestWrote(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	j.admit(call.Idempotent, "B")
	j.claim("c")
	j.decide(call.Completion{Cause: call.TimedOut, Nonce: "o"})
	j.admit(call.Idempotent, "C")
	done := j.state
	for i, e := range j.events {
		if !done.Wrote(e) {
			t.Errorf("event %d (%s) is part of the log", i, e.Kind)
		}
		stranger := e
		stranger.Nonce = "another"
		if e.Kind != call.Joined && done.Wrote(stranger) {
			t.Errorf("event %d (%s) of another writer is not", i, e.Kind)
		}
	}
	early := call.Fold(j.events[0], j.seqs[0])
	for i, e := range j.events[1:] {
		if early.Wrote(e) {
			t.Errorf("event %d (%s) is not written yet", i+1, e.Kind)
		}
	}
	if done.Wrote(call.Event{Kind: "p", Attempt: 1}) {
		t.Error("an unknown kind was written")
	}
}

// TestWroteAfterwards asks for a write that others have built upon: claims are replaced, and
// whoever was joined by another's event is bound too.
func TestWroteAfterwards(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	mine, _ := call.JoinAll(j.state, 1, []string{"B"}, "mine")
	j.admit(call.Idempotent, "B") // by another dispatcher
	if !j.state.Wrote(mine) {
		t.Error("B is bound, so there is nothing left to write")
	}
	j.claim("first")
	first := j.events[len(j.events)-1]
	j.claim("second")
	if j.state.Wrote(first) {
		t.Error("a claim that was taken over is no claim any more")
	}
}
