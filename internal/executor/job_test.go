package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func TestKill(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		started := make(chan struct{})
		w.execute = func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			close(started)
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}
		m := w.admit(callA, time.Minute)
		done := make(chan struct{})
		go func() { defer close(done); w.ex.Handle(t.Context(), m) }()
		<-started
		before := time.Now()
		w.cancel()
		if !w.ex.Kill("id1", 1, time.Now().Add(time.Minute)) {
			t.Error("the tool was running, Kill says not")
		}
		<-done
		if took := time.Since(before); took > time.Second {
			t.Errorf("killed after %s", took)
		}
		w.wantAcked(m, true)
		if d := w.decided(1); d.By != call.ByCanceller {
			t.Errorf("decided by %v", d)
		}
	})
}

// A kill that the log does not confirm ends nothing, however often it comes, and costs one read at a time. A cancel in
// the middle of a flood of them ends the run within a second.
func TestForgedKill(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		started := make(chan struct{})
		w.execute = func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			close(started)
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}
		m := w.admit(callA, time.Minute)
		done := make(chan struct{})
		go func() { defer close(done); w.ex.Handle(t.Context(), m) }()
		<-started
		before, reads := time.Now(), 0
		w.log.BeforeRead(func() error { reads++; return nil })
		for range 1000 {
			for range 10 {
				w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
			}
			pass(time.Millisecond)
		}
		w.log.BeforeRead(nil)
		if reads < 2 || reads > 25 {
			t.Errorf("10,000 kills in a second make %d reads of the log", reads)
		}
		select {
		case <-done:
			t.Fatalf("a kill that the log does not confirm ended the run after %s", time.Since(before))
		default:
		}
		w.cancel()
		before = time.Now()
		w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
		<-done
		if took := time.Since(before); took > time.Second {
			t.Errorf("killed after %s", took)
		}
	})
}

// A kill is not forgotten while the log cannot be read.
func TestKillWhileTheLogIsAway(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		started := make(chan struct{})
		w.execute = func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			close(started)
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}
		m := w.admit(callA, time.Minute)
		done := make(chan struct{})
		go func() { defer close(done); w.ex.Handle(t.Context(), m) }()
		<-started
		w.cancel()
		w.log.BeforeRead(func() error { return errors.New("no dispatcher answers") })
		w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
		pass(3 * time.Second)
		select {
		case <-done:
			t.Fatal("the run ended, and nothing has confirmed the kill")
		default:
		}
		w.log.BeforeRead(nil)
		before := time.Now()
		<-done
		if took := time.Since(before); took > time.Second {
			t.Errorf("killed %s after the log was back", took)
		}
	})
}

// A forged kill of a call that has not arrived changes nothing of how it runs: it is no second delivery.
func TestForgedKillBeforeStart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
		m := w.admit(callA, time.Minute)
		w.ex.Handle(t.Context(), m)
		d, claimed := w.decided(1), w.state().Last().Claim != nil
		if d.Status != envelope.Success || claimed != (w.manifest.Class == call.SideEffectful) {
			t.Errorf("decision %+v, claimed: %v", d, claimed)
		}
	})
}

// A cancel that came before the work is found in the log: the tool never starts.
func TestKilledBeforeStart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.cancel()
		if w.ex.Kill("id1", 1, time.Now().Add(time.Minute)) {
			t.Error("nothing runs, Kill says it does")
		}
		w.ex.Handle(t.Context(), m)
		if len(w.runs) != 0 || w.decided(1).Code != envelope.CodeCancelled {
			t.Errorf("%d runs, decision %+v", len(w.runs), w.decided(1))
		}
	})
}

// busy gives the tool the one run that it may have at once, until end.
func (w *world) busy() (running executor.Message, end func()) {
	w.manifest.Limits.Concurrency = 1
	release, started, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		close(started)
		<-release
		return tool.Result{Output: inv.Input}, nil
	}
	running = w.admit(callA, time.Minute)
	go func() { defer close(done); w.ex.Handle(w.t.Context(), running) }()
	<-started
	return running, func() { close(release); <-done }
}

// A tool has no more runs at once than its manifest allows; the rest is handed back.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		first, end := w.busy()
		other := first
		other.Entry.State.ID, other.Lease = "id2", &holding{over: make(chan struct{}, 2)}
		w.ex.Handle(t.Context(), other)
		w.wantAcked(other, false)
		same := again(first)
		w.ex.Handle(t.Context(), same)
		w.wantAcked(same, false)
		if n, m := other.Lease.(*holding).declined, same.Lease.(*holding).declined; n != 1 || m != 0 {
			t.Errorf("declined: what finds no run %d times, what runs here %d times", n, m)
		}
		w.ex.InProgress()
		if h := first.Lease.(*holding); h.extended != 1 || w.ex.Running() != 1 {
			t.Errorf("extended %d, running %d", h.extended, w.ex.Running())
		}
		end()
		w.wantAcked(first, true)
	})
}

// Past its deadline a call needs neither its tool nor a slot of it: it is not handed back for ever.
func TestNoToolNeededPastTheDeadline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.manifest.Limits.Concurrency = 0
		m := w.admit(callA, time.Minute)
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, false)
		pass(time.Minute)
		m = again(m)
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		want := envelope.CodeTimeout // an earlier delivery may have run it
		if w.state().Class == call.SideEffectful {
			want = envelope.CodeUnavailable
		}
		if d := w.decided(1); d.Code != want {
			t.Errorf("decision %+v", d)
		}
		w.manifest = nil
		m = again(m)
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
	})
}

// A key that was cancelled runs again when its log has expired: the kill was for what was there before.
func TestKilledLongAgo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
		pass(2 * time.Hour)
		m := w.admit(callA, time.Minute)
		w.ex.Handle(t.Context(), m)
		if d := w.decided(1); d.Status != envelope.Success {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}

// A flood of kills does not keep an executor from its work. It forgets some, and reads the log instead.
func TestKillFlood(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for n := range 25_000 {
			w.ex.Kill(fmt.Sprint("other", n), 1, time.Now().Add(time.Minute))
		}
		m := w.admit(callA, time.Minute)
		w.cancel()
		w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
		for n := range 9_000 { // of which one of the first is forgotten
			w.ex.Kill(fmt.Sprint("another", n), 1, time.Now().Add(time.Minute))
		}
		w.ex.Handle(t.Context(), m)
		if len(w.runs) != 0 {
			t.Error("a cancelled call ran")
		}
	})
}

// A long queue for a busy tool costs no more looks than a short one, also when one of its runs has ended.
func TestQueueForABusyTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		first, end := w.busy()
		other := first
		other.Entry.State.ID = "id2"
		look := func() time.Duration {
			h := &holding{over: make(chan struct{}, 2)}
			other.Lease = h
			w.ex.Handle(t.Context(), other)
			return h.handedBack[0]
		}
		for n := range 1000 {
			if got, want := look(), time.Duration(50+n)*time.Millisecond; got != want {
				t.Fatalf("message %d is looked at after %s, want %s", n, got, want)
			}
		}
		end()
		w.manifest.Limits.Concurrency = 0 // another has taken the slot
		if got, want := look(), 1050*time.Millisecond; got != want {
			t.Errorf("after the run, a message is looked at after %s, want %s", got, want)
		}
		for range 2000 {
			if got := look(); got > 2*time.Second {
				t.Fatalf("looked at after %s", got)
			}
		}
		pass(10 * time.Second)
		if got, want := look(), 50*time.Millisecond; got != want {
			t.Errorf("without a queue, a message is looked at after %s, want %s", got, want)
		}
	})
}
