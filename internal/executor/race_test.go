package executor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// timeOut decides attempt 1 as a guardian would.
func (w *world) timeOut() {
	w.t.Helper()
	s := w.state()
	r := call.Decide(s, 1, s.Last().Admitted, call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "guardian",
		Now: call.At(time.Now())})
	if _, err := w.log.Write(w.t.Context(), r.Event, outcomeBody(w.t, r.Code)); err != nil {
		w.t.Error(err)
	}
}

// A join came between the message and its first delivery: the claim follows it at once (C4).
func TestJoinedBeforeTheClaim(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		join, _ := call.JoinAll(w.state(), 1, []string{callB}, "j")
		if _, err := w.log.Write(t.Context(), join, nil); err != nil {
			t.Fatal(err)
		}
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		if d := w.decided(1); d.Status != envelope.Success || len(w.runs) != 1 || !w.state().Last().Has(callB) {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}

// An outcome came between the message and its first delivery, and nobody heard of it: what has to
// claim first does not run any more.
func TestDecidedBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		m := w.admit(callA, time.Minute)
		w.timeOut()
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		if len(w.runs) != 0 || len(w.replies) != 1 || w.replies[0].Error.Code != envelope.CodeUnavailable {
			t.Errorf("%d runs, replies %+v", len(w.runs), w.replies)
		}
	})
}

// The log of a message is gone before it is claimed: nothing is run, and nothing of the message stays
// in hand, not even its place among the runs of the tool.
func TestGoneBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		w.manifest.Limits.Concurrency = 1
		for _, delivery := range []int{1, 2} {
			m := w.admit(callA, time.Minute)
			m.Deliveries, m.Lease = delivery, &holding{over: make(chan struct{}, 2)}
			w.log.LoseTail(0)
			w.ex.Handle(t.Context(), m)
			w.wantAcked(m, true)
			if len(w.runs) != 0 || len(w.log.Entries()) != 0 || w.ex.Running() != 0 {
				t.Errorf("delivery %d: %d runs, %d events, %d in hand", delivery, len(w.runs), len(w.log.Entries()), w.ex.Running())
			}
		}
		w.ex.Handle(t.Context(), w.admit(callB, time.Minute))
		if d := w.decided(1); d.Status != envelope.Success {
			t.Errorf("the next call: %+v", d)
		}
	})
}

// unreadable is a log that takes writes and cannot be read.
type unreadable struct{ *calltest.Log }

func (unreadable) Read(context.Context, string, string) (call.Entry, error) {
	return call.Entry{}, errors.New("the log cannot be read")
}

// A log that cannot be read is not taken for one that is gone: the message comes again.
func TestUnreadableIsNotGone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := again(w.admit(callA, time.Minute))
		w.ex.CallLog = unreadable{w.log}
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, false)
		if len(w.runs) != 0 {
			t.Errorf("%d runs", len(w.runs))
		}
	})
}

// While the log cannot be read work comes again more and more seldom: all that is open does.
func TestUnreadableForLong(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.ex.CallLog = unreadable{w.log}
		last := time.Duration(0)
		for m.Deliveries = 2; m.Deliveries < 12; m.Deliveries++ {
			held := &holding{over: make(chan struct{}, 2)}
			m.Lease = held
			w.ex.Handle(t.Context(), m)
			if len(held.handedBack) != 1 || held.handedBack[0] < last || held.handedBack[0] > 2*time.Second {
				t.Fatalf("delivery %d: handed back for %v, before for %s", m.Deliveries, held.handedBack, last)
			}
			last = held.handedBack[0]
		}
		if last != 2*time.Second {
			t.Errorf("handed back for %s at last", last)
		}
	})
}

// A full log holds up the end of the executor for a while, and not for ever.
func TestShutDownWhileFull(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Hour)
		w.log.Before(func(e call.Event) error {
			if e.Kind == call.Decided {
				return call.ErrFull
			}
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.ex.Handle(ctx, m) }()
		pass(time.Second)
		stop()
		ended := time.Now()
		<-done
		if took := time.Since(ended); took > 11*time.Second {
			t.Errorf("ended after %s", took)
		}
		w.wantAcked(m, false)
	})
}

// A late result is another ending of a run that lost: neither what the winner's tool said before it was
// judged, nor a deadline that two have kept.
func TestWhatIsNoLateResult(t *testing.T) {
	fails := func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
		return tool.Result{}, envelopeError{envelope.CodeUpstream}
	}
	t.Run("judged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, call.SideEffectful)
			w.execute = fails
			w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
			if d := w.decided(1); d.Code != envelope.CodeToolUnknownState || len(w.late) != 0 {
				t.Errorf("%+v, late %v", d, w.late)
			}
		})
	})
	t.Run("deadline", func(t *testing.T) {
		each(t, func(t *testing.T, w *world) {
			w.execute = func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
				<-ctx.Done()
				w.timeOut()
				return tool.Result{}, context.Cause(ctx)
			}
			w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
			if d := w.decided(1); d.By != call.ByDeadline || len(w.late) != 0 {
				t.Errorf("%+v, late %v", d, w.late)
			}
		})
	})
	t.Run("but another error", func(t *testing.T) {
		each(t, func(t *testing.T, w *world) {
			w.execute = func(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
				w.timeOut()
				return fails(ctx, inv, s)
			}
			w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
			if len(w.late) != 1 || w.late[0] != envelope.CodeUpstream {
				t.Errorf("late %v", w.late)
			}
		})
	})
}

// What a tool still says of its effect when it is ended is on record, though the attempt is decided by then.
func TestLastWordIsKept(t *testing.T) {
	for _, said := range []envelope.Effect{envelope.EffectApplied, envelope.EffectNone, envelope.EffectUnknown, ""} {
		each(t, func(t *testing.T, w *world) {
			w.execute = func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
				<-ctx.Done()
				w.timeOut()
				return tool.Result{}, tool.Stopped(ctx, said, "")
			}
			w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
			want := 0
			if tells := said == envelope.EffectApplied || said == envelope.EffectNone; tells && w.manifest.Class != call.Pure {
				want = 1
			}
			if d := w.decided(1); d.By != call.ByDeadline || len(w.late) != want {
				t.Errorf("it said %q: %+v, late %v", said, d, w.late)
			}
		})
	}
}

// envelopeError is an error of the taxonomy.
type envelopeError struct{ code envelope.Code }

func (e envelopeError) Error() string          { return string(e.code) }
func (e envelopeError) Fault() *envelope.Error { return envelope.NewError(e.code, "") }

// What cannot be put on record is not done with: the message comes again.
func TestUnrecordedIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Idempotent)
		w.unkept = errors.New("no room for records")
		m := w.admit(callA, time.Minute)
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			w.timeOut()
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, false)
	})
}

// An outcome names the chunks of its run, and a success whose chunks are not stored is none.
func TestChunksOfAnOutcome(t *testing.T) {
	for name, unstored := range map[string]error{"stored": nil, "not stored": envelopeError{envelope.CodeStoreFull}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, call.Pure)
				w.unstored = unstored
				w.execute = func(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
					pass(time.Second)
					return tool.Result{Output: inv.Input}, s.Emit(ctx, envelope.ChunkData, []byte(`1`))
				}
				w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
				r := w.replies[0]
				if c := r.Provenance.Chunks; c == nil || c.Count != 1 || r.Metrics.DurationMS != 1000 {
					t.Errorf("chunks %+v, metrics %+v", c, r.Metrics)
				}
				if d := w.decided(1); (d.Status == envelope.Success) != (unstored == nil) ||
					unstored != nil && d.Code != envelope.CodeStoreFull {
					t.Errorf("decision %+v", d)
				}
			})
		})
	}
}
