package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// held are workers whose runs last until they are let go.
type held struct {
	begun   chan *workqueue.Message
	release chan struct{}
}

// hold starts workers with so many slots.
func (f *fixture) hold(slots int) *held {
	f.T.Helper()
	h := &held{begun: make(chan *workqueue.Message, 100), release: make(chan struct{})}
	w, err := workqueue.New(f.T.Context(), workqueue.Keep(f.JS, "default", 1, time.Minute), "default", 1, slots,
		time.Minute,
		func(ctx context.Context, w *workqueue.Message) {
			h.begun <- w
			select {
			case <-h.release:
			case <-ctx.Done():
			}
			w.Ack()
		})
	if err != nil {
		f.T.Fatal(err)
	}
	bustest.Run(f.T, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	return h
}

// next waits for a run to begin.
func (h *held) next(t *testing.T) *workqueue.Message {
	t.Helper()
	select {
	case w := <-h.begun:
		return w
	case <-time.After(50 * time.Second): // the lease is a minute
		t.Fatal("no work")
		return nil
	}
}

// All slots run calls of one priority where there are no others. What comes of another priority meanwhile has its
// share all the same.
func TestAllSlotsForOnePriority(t *testing.T) {
	for _, slots := range []int{workqueue.MinSlots, 3, 8} {
		f := setup(t)
		const calls = 500
		for n := range calls {
			f.Admit(n, envelope.PriorityNormal)
		}
		h := f.hold(slots)
		for range slots {
			h.next(t)
		}
		f.Admit(calls, envelope.PriorityLow)
		for n := 0; h.releaseOne(t).Entry.State.Last().Priority != envelope.PriorityLow; n++ {
			if n == calls-slots-1 {
				t.Errorf("%d slots: low waited for all of normal", slots)
				break
			}
		}
	}
}

// releaseOne lets one run end, and waits for the next to begin.
func (h *held) releaseOne(t *testing.T) *workqueue.Message {
	t.Helper()
	h.release <- struct{}{}
	return h.next(t)
}

// A message that finds no slot does not stay in hand while somebody else has one, and is as new to that one as the
// server's count says.
func TestNoSlotSoon(t *testing.T) {
	f := setup(t)
	full := f.hold(1)
	f.Admit(1, envelope.PriorityNormal)
	full.next(t)
	f.Admit(2, envelope.PriorityHigh)
	f.until(func() bool { return f.handedOut(envelope.PriorityHigh) == 1 }) // to full: there is nobody else
	idle := f.hold(1)
	if w := idle.next(t); w.Deliveries != 2 {
		t.Errorf("another is handed it as delivery %d", w.Deliveries)
	}
	if n := len(full.begun); n > 0 {
		t.Errorf("%d runs with one slot", n+1)
	}
}

// However much there is of all priorities, one message of each is all that an executor takes beyond its slots.
func TestMessagesBeyondTheSlots(t *testing.T) {
	f := setup(t)
	priorities := []envelope.Priority{envelope.PriorityHigh, envelope.PriorityNormal, envelope.PriorityLow}
	const slots = 2
	for n := range 30 {
		f.Admit(n, priorities[n%3])
	}
	h := f.hold(slots)
	for range slots {
		h.next(t)
	}
	<-time.After(time.Second) // of which a message waits a quarter for a slot
	var out uint64
	for _, p := range priorities {
		out += f.handedOut(p)
	}
	if most := uint64(slots + len(priorities)); out > most || len(h.begun) > 0 {
		t.Errorf("%d messages were handed out for %d slots, want no more than %d; %d more have begun", out, slots, most,
			len(h.begun))
	}
}

// handedOut is how many messages of a priority were handed to somebody.
func (f *fixture) handedOut(prio envelope.Priority) uint64 {
	f.T.Helper()
	c, err := f.JS.Consumer(f.T.Context(), subjects.Partition(0).Stream(), subjects.Worker("default", string(prio)))
	if err != nil {
		f.T.Fatal(err)
	}
	return c.CachedInfo().Delivered.Consumer
}

// until waits for something to become so.
func (f *fixture) until(so func() bool) {
	f.T.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); {
		if time.Now().After(end) {
			f.T.Fatal("it does not come to that")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// What was declined comes again as the first delivery, to whoever has declined it: nobody else has had it. What was
// handed back does not, nor what another had in between.
func TestDeclined(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(*workqueue.Message)
		want  int
	}{
		"declined":    {func(w *workqueue.Message) { w.NakUnstarted(10 * time.Millisecond) }, 1},
		"handed back": {func(w *workqueue.Message) { w.NakWithDelay(10 * time.Millisecond) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			got := make(chan int, 10)
			w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, time.Minute), "default", 1, 3, time.Minute,
				func(_ context.Context, w *workqueue.Message) {
					got <- w.Deliveries
					if len(got) < 3 {
						c.leave(w)
						return
					}
					w.Ack()
				})
			if err != nil {
				t.Fatal(err)
			}
			bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
			f.Admit(1, envelope.PriorityNormal)
			f.until(func() bool { return len(got) == 3 })
			if first, second := <-got, <-got; first != 1 || second != c.want {
				t.Errorf("deliveries %d and %d, want 1 and %d", first, second, c.want)
			}
		})
	}
}

func TestDeclinedByAnother(t *testing.T) {
	f := setup(t)
	got, turn := make(chan int, 10), make(chan struct{}, 10)
	work := func(name string) (stop func()) {
		w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, time.Minute), "default", 1, 3, time.Minute,
			func(_ context.Context, w *workqueue.Message) {
				got <- w.Deliveries
				w.NakUnstarted(500 * time.Millisecond)
				turn <- struct{}{}
			})
		if err != nil {
			t.Fatal(err)
		}
		return bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	}
	stop := work("first")
	f.Admit(1, envelope.PriorityNormal)
	<-turn
	stop()
	work("second")
	<-turn
	if first, second := <-got, <-got; first != 1 || second != 2 {
		t.Errorf("deliveries %d and %d, want 1 and 2", first, second)
	}
}

// Consumers are looked at when there is reason to, and else seldom: what comes from them says how they are.
func TestConsumersAreSeldomLookedAt(t *testing.T) {
	f := setup(t)
	h := f.hold(8)
	sub, err := f.NC.SubscribeSync("$JS.API.CONSUMER.INFO.>")
	if err != nil {
		t.Fatal(err)
	}
	end := time.After(3500 * time.Millisecond)
	for n := 0; ; n++ {
		select {
		case <-end:
			if n, _, err := sub.Pending(); err != nil || n > 3 {
				t.Errorf("%d looks at three consumers within seconds, %v", n, err)
			}
			return
		default:
		}
		f.Admit(n, envelope.PriorityNormal)
		if w := h.next(t); w.Deliveries != 1 {
			t.Errorf("call %d came at delivery %d", n, w.Deliveries)
		}
		h.release <- struct{}{}
		<-time.After(20 * time.Millisecond)
	}
}
