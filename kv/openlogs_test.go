package kv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/kv"
)

// bound writes the request of a side-effectful call whose tool has no lookup.
func (f *followerFixture) bound(id string) call.State {
	f.T.Helper()
	now := call.At(time.Now())
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: "A", Actor: "a"}, Fingerprint: "fp", Priority: envelope.PriorityNormal, Now: now,
		Deadline: now + 60_000, Nonce: "d-1.1",
		Pinned: call.Pinned{Tenant: "t", Tool: "pay", ID: id, Version: "1.0.0", Class: call.SideEffectful, Pool: "default",
			Fingerprint: "fp", Lookup: call.LookupNo},
	})
	return f.write(v.Event)
}

func (f *followerFixture) write(e call.Event) call.State {
	f.T.Helper()
	s, err := f.Log.Write(f.T.Context(), e, []byte(`{"response":{}}`))
	if err != nil {
		f.T.Fatal(err)
	}
	return s
}

func (f *followerFixture) claim(s call.State) call.State {
	f.T.Helper()
	_, e := call.Take(s, call.WorkDelivery{Attempt: 1, Admitted: s.Last().Admitted, Deliveries: 1, By: "default/claimer",
		Nonce: "claimer.1", Now: call.At(time.Now())})
	return f.write(e)
}

// succeeded is what an instance would write of a success.
func succeeded(s call.State, nonce string) call.Event {
	e := call.Event{Kind: call.Decided, Attempt: 1, Nonce: nonce, State: s}
	e.State.Attempts = append([]call.Attempt(nil), s.Attempts...)
	a := &e.State.Attempts[0]
	a.Decision = &call.Decision{Nonce: nonce, Status: envelope.Success, Effect: envelope.EffectApplied,
		By: call.ByExecutor, At: a.At}
	return e
}

// put stores an event as it is, without a look at the log.
func (f *followerFixture) put(e call.Event) uint64 {
	f.T.Helper()
	ack, err := f.JS.PublishMsg(f.T.Context(), &nats.Msg{Subject: kv.EventSubject(e),
		Header: nats.Header{"Tb-Event": {kv.EncodeEvent(e)}}})
	if err != nil {
		f.T.Fatal(err)
	}
	return ack.Sequence
}

// reread returns the last state of a log.
func (f *followerFixture) reread(s call.State) call.State {
	f.T.Helper()
	last, err := f.Log.Read(f.T.Context(), s.Tool, s.ID)
	if err != nil {
		f.T.Fatal(err)
	}
	return last.State
}

// A follower observes what the log allows and passes over the rest, wherever it begins: with the log, behind the
// request, or behind the outcome. So does everybody who reads it.
func TestFollowerPassesOverStrangers(t *testing.T) {
	f := setupFollower(t)
	s := f.bound("id1")
	c := f.claim(s)
	f.put(succeeded(c, "other.1"))
	seized := succeeded(c, "other.2")
	claim := *c.Last().Claim
	claim.Nonce = "other.0"
	seized.State.Attempts[0].Claim = &claim
	f.put(seized)
	done := f.write(succeeded(f.reread(c), "claimer.2"))
	late := f.put(succeeded(c, "other.3"))
	after := f.bound("id2")
	for from, want := range map[uint64][]uint64{
		1: {s.Seq, c.Seq, done.Seq, after.Seq}, s.Seq + 1: {c.Seq, done.Seq, after.Seq},
		c.Seq + 1: {done.Seq, after.Seq}, done.Seq + 1: {after.Seq}, late: {after.Seq},
	} {
		seen := make(chan uint64, 9)
		bustest.Run(t, func(ctx context.Context) {
			if err := kv.NewFollower(f.JS, 0).Run(ctx, from, func(o kv.FollowedEvent) { seen <- o.Seq }); err != nil {
				t.Error(err)
			}
		})
		for _, seq := range want {
			f.next(seen, seq)
		}
	}
}

// However many events a log has that do not count, the events of other logs are observed soon after. A log that is too
// long to be read stops no follower.
func TestStrangersDelayNoOtherLog(t *testing.T) {
	f := setupFollower(t)
	c := f.claim(f.bound("id1"))
	done := f.write(succeeded(c, "claimer.2"))
	e := succeeded(c, "other.1")
	claim := *c.Last().Claim
	claim.Nonce = "other.0"
	e.State.Attempts[0].Claim = &claim
	var last uint64
	for _, filling := range []int{500, 1000} {
		f.fill(e, filling)
		for range 200 {
			f.put(e)
		}
		last = f.bound(fmt.Sprint("after", filling)).Seq
		for _, from := range []uint64{1, done.Seq + 1} {
			begun, seen := time.Now(), make(chan uint64, 9)
			bustest.Run(t, func(ctx context.Context) {
				if err := kv.NewFollower(f.JS, 0).Run(ctx, from, func(o kv.FollowedEvent) { seen <- o.Seq }); err != nil {
					t.Error(err)
				}
			})
			for seq := uint64(0); seq != last; {
				select {
				case seq = <-seen:
				case <-time.After(time.Minute): // it takes 0.1 s on an idle machine
					t.Fatalf("the event at %d was not observed", last)
				}
			}
			t.Logf("from %d to %d: %s", from, last, time.Since(begun))
		}
	}
	if _, err := f.Log.Read(t.Context(), c.Tool, c.ID); !errors.Is(err, kv.ErrOverlong) {
		t.Errorf("reading it: %v", err)
	}
}

// Claims of logs that no dispatcher opened are not observed, and a follower keeps no more of them than its bound. The
// next call is.
func TestInventedLogsTakeNoMemory(t *testing.T) {
	const invented, kept = 10_000, 4096
	f := setupFollower(t)
	c := f.claim(f.bound("id1"))
	bound := call.Event{Kind: call.Claimed, Attempt: 1, Nonce: c.Last().Claim.Nonce, State: c}
	unbound := bound
	unbound.State.Class, unbound.State.Lookup = call.Idempotent, ""
	for i := range invented {
		e := bound
		if i%2 == 0 {
			e = unbound
		}
		e.State.ID = fmt.Sprint("invented", i)
		if _, err := f.JS.PublishMsgAsync(&nats.Msg{Subject: kv.EventSubject(e),
			Header: nats.Header{"Tb-Event": {kv.EncodeEvent(e)}}}, patient); err != nil {
			t.Fatal(err)
		}
	}
	<-f.JS.PublishAsyncComplete()
	after := f.bound("id2")
	follower, seen, ended := kv.NewFollower(f.JS, 0), make(chan uint64, invented), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- follower.Run(ctx, 1, func(o kv.FollowedEvent) { seen <- o.Seq }) }()
	for seq := uint64(0); seq != after.Seq; {
		select {
		case seq = <-seen:
			if seq > c.Seq && seq < after.Seq {
				t.Fatalf("the claim at %d of a log that nobody opened was observed", seq)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the next call was not observed")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := follower.Kept(); n > kept+2 {
		t.Errorf("the follower keeps %d logs", n)
	}
}

// patient lets a publisher of many messages wait for a slow server.
var patient = jetstream.WithStallWait(time.Minute)

// fill stores n messages in the log of e that are no events.
func (f *followerFixture) fill(e call.Event, n int) {
	f.T.Helper()
	for i := range n {
		e.Attempt = 2 + i/32
		if _, err := f.JS.PublishMsgAsync(&nats.Msg{Subject: kv.EventSubject(e)}, patient); err != nil {
			f.T.Fatal(err)
		}
	}
	<-f.JS.PublishAsyncComplete()
}
