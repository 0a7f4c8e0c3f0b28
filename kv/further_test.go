package kv_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// unbound writes the request of an idempotent call: its log is not bound.
func (f *followerFixture) unbound(id string) call.State {
	f.T.Helper()
	now := call.At(time.Now())
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: "A", Actor: "a"}, Fingerprint: "fp", Priority: envelope.PriorityNormal, Now: now,
		Deadline: now + 60_000, Nonce: "d-1.1",
		Pinned: call.Pinned{Tenant: "t", Tool: "pay", ID: id, Version: "1.0.0", Class: call.Idempotent, Pool: "default",
			Fingerprint: "fp"},
	})
	return f.write(v.Event)
}

// further is a claim of an attempt that no dispatcher has opened, of a call of another tenant with a year to go.
func further(s call.State, n int) call.Event {
	e := call.Event{Kind: call.Claimed, Attempt: n, Nonce: "other.1", State: s}
	e.State.Tenant = "victim"
	a := s.Attempts[0]
	a.N, a.Owner.Actor, a.Decision = n, "agent://victim", nil
	a.Deadline = call.At(a.At.Time().AddDate(1, 0, 0))
	a.Claim = &call.Claim{By: "default/other", Nonce: "other.1", Count: 1}
	e.State.Attempts = []call.Attempt{a}
	return e
}

// An executor of the pool writes claims of attempts that no dispatcher has opened into the logs of pure and idempotent
// calls that it knows, of a running one and of one that has ended. None is observed, and none has the follower keep
// the log for ever. The events of the dispatchers, and the outcome, are.
func TestClaimsOfFurtherAttemptsAreNotObserved(t *testing.T) {
	const attempts = 200
	f := setupFollower(t)
	ended := f.unbound("ended")
	done := f.write(succeeded(ended, "claimer.9"))
	running := f.unbound("running")
	second := call.WorkDelivery{Attempt: 1, Admitted: running.Seq, Deliveries: 2, By: "default/claimer",
		Nonce: "claimer.1",
		Now:   call.At(time.Now())}
	_, e := call.Take(running, second)
	claimed := f.write(e)
	want := []uint64{ended.Seq, done.Seq, running.Seq, claimed.Seq}
	for n := range attempts {
		f.put(further(running, n+2))
		f.put(further(ended, n+2))
	}
	late := f.reread(claimed)
	want = append(want, f.put(succeeded(call.State{Position: late.Position, Pinned: claimed.Pinned,
		Attempts: claimed.Attempts}, "claimer.2")))
	f.put(further(running, 2))
	after := f.unbound("after")
	want = append(want, after.Seq)

	follower, seen, stopped := kv.NewFollower(f.JS, 0), make(chan uint64, 3*attempts), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { stopped <- follower.Run(ctx, 1, func(o kv.FollowedEvent) { seen <- o.Seq }) }()
	for _, seq := range want {
		f.next(seen, seq)
	}
	stop()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if n := follower.Open(); n != 1 {
		t.Errorf("the follower takes %d logs for open, and one is", n)
	}
}
