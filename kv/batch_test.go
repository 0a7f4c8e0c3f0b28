package kv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// stored returns how many events the log holds of each id, and how many of all came in batches.
func stored(t *testing.T, js jetstream.JetStream) (events map[string]int, batched int) {
	t.Helper()
	stream, err := js.Stream(t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	events = map[string]int{}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := subjects.ParseEvent(msg.Subject)
		if err != nil {
			t.Fatal(err)
		}
		events[parsed.Key.ID]++
		if msg.Header.Get(jetstreamext.BatchIDHeader) != "" {
			batched++
		}
	}
	return events, batched
}

// together runs n functions at the same time and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-start; f(i) })
	}
	close(start)
	wg.Wait()
}

// What is written together is as if it had been written alone, and every writer knows where.
func TestGroup(t *testing.T) {
	f := setup(t, kv.LogOptions{Group: 2}, bus.TopologyOptions{})
	const logs = 300
	together(logs, func(i int) {
		id := fmt.Sprint("id", i)
		opened, err := f.log.Write(t.Context(), admission(t, call.State{}, id, "A", time.Minute), body)
		if err != nil {
			t.Error(err)
			return
		}
		decided, err := f.log.Write(t.Context(), timeout(opened, "g"), body)
		if err != nil {
			t.Error(err)
			return
		}
		first, err := f.log.Get(t.Context(), opened.Position)
		if err != nil || first.State.ID != id || first.Kind != call.Requested {
			t.Errorf("%s was said to be opened at %d, there is %s of %s: %v", id, opened.Seq, first.Kind, first.State.ID, err)
		}
		last, err := f.log.Read(t.Context(), "web.fetch", id)
		if err != nil || last.State.Seq != decided.Seq {
			t.Errorf("%s was said to be decided at %d, its log ends at %d: %v", id, decided.Seq, last.State.Seq, err)
		}
	})
	events, batched := stored(t, f.js)
	if len(events) != logs || batched < logs {
		t.Errorf("%d logs, %d events in batches", len(events), batched)
	}
	for id, n := range events {
		if n != 2 {
			t.Errorf("%s has %d events", id, n)
		}
	}
}

// Events for the same place of one log are never in one batch, which would store them all; those
// of other logs do not suffer from one that has lost.
func TestGroupHasOneWinner(t *testing.T) {
	f := setup(t, kv.LogOptions{Group: 2}, bus.TopologyOptions{})
	const logs, writers = 8, 8
	opened := make([]call.State, logs)
	for i := range opened {
		var err error
		if opened[i], err = f.log.Write(t.Context(), admission(t, call.State{}, fmt.Sprint("id", i), "A", time.Minute),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	won := map[string]int{}
	together(logs*writers, func(i int) {
		s := opened[i%logs]
		e := timeout(s, fmt.Sprint("g", i))
		if i/logs%2 == 0 {
			e = claim(t, s, fmt.Sprint("e", i))
		}
		after, err := f.log.Write(t.Context(), e, body)
		var moved *call.ConflictError
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && after.Wrote(e):
			won[s.ID]++
		case !errors.As(err, &moved) || moved.State.Seq <= s.Seq:
			t.Errorf("loser got %v", err)
		}
	})
	events, _ := stored(t, f.js)
	for _, s := range opened {
		if won[s.ID] != 1 || events[s.ID] != 2 {
			t.Errorf("%s: %d winners, %d events", s.ID, won[s.ID], events[s.ID])
		}
	}
}

// Messages of a batch that are lost, late or doubled on their way, and its acknowledgement, change
// nothing: every event is stored once, and its writer knows.
func TestGroupInTrouble(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	p, err := proxy.Listen(strings.TrimPrefix(f.srv.URL, "nats://"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	nc, err := bus.Dial(p.URL(), "trouble")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), bus.Shared(js), kv.LogOptions{Group: 2, Answer: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	odds := proxy.Odds{Drop: 0.02, Delay: 0.02, Double: 0.02, Most: 50 * time.Millisecond}
	p.Set(proxy.Trouble{proxy.Write: odds, proxy.PubAck: {Drop: 0.2, Double: 0.2}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const logs = 200
	together(logs, func(i int) {
		s, err := log.Write(ctx, admission(t, call.State{}, fmt.Sprint("id", i), "A", time.Minute), body)
		if err == nil {
			_, err = log.Write(ctx, timeout(s, "g"), body)
		}
		if err != nil {
			t.Error(err)
		}
	})
	events, batched := stored(t, f.js)
	for id, n := range events {
		if n != 2 {
			t.Errorf("%s has %d events", id, n)
		}
	}
	if c := p.Counts(); len(events) != logs || batched == 0 || c[proxy.Write].Dropped == 0 ||
		c[proxy.PubAck].Dropped == 0 {
		t.Errorf("%d logs, %d events in batches, %v", len(events), batched, c)
	}
}

// A batch that does not fit into a full log says so to those, and only to those, whose event is
// not stored.
func TestGroupFull(t *testing.T) {
	f := setup(t, kv.LogOptions{Group: 2}, bus.TopologyOptions{CallsBytes: 128 << 10})
	var mu sync.Mutex
	written := map[string]bool{}
	together(40, func(i int) {
		id := fmt.Sprint("id", i)
		_, err := f.log.Write(t.Context(), admission(t, call.State{}, id, "A", time.Minute), make([]byte, 8<<10))
		mu.Lock()
		defer mu.Unlock()
		written[id] = err == nil
		if err != nil && !errors.Is(err, call.ErrFull) {
			t.Error(err)
		}
	})
	events, _ := stored(t, f.js)
	for id, said := range written {
		if said != (events[id] == 1) {
			t.Errorf("%s: said to be written: %v, %d events", id, said, events[id])
		}
	}
	if len(events) == 0 || len(events) == len(written) {
		t.Errorf("%d of %d written", len(events), len(written))
	}
}

// Nobody waits longer for others than for the log itself, and what is not known to be stored is
// unsure.
func TestGroupUnsure(t *testing.T) {
	f := setup(t, kv.LogOptions{Group: 4, Answer: 100 * time.Millisecond}, bus.TopologyOptions{})
	f.srv.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	together(64, func(i int) {
		_, err := f.log.Write(ctx, admission(t, call.State{}, fmt.Sprint("id", i), "A", time.Minute), nil)
		if !errors.Is(err, call.ErrUnsure) {
			t.Errorf("got %v", err)
		}
	})
	f.srv.Restart()
	if _, err := f.log.Write(t.Context(), admission(t, call.State{}, "id", "A", time.Minute), nil); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// A write ends at the time that its event names, and nothing is sent after that.
func TestWriteUntil(t *testing.T) {
	for _, least := range []int{0, 1, 4} {
		f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
		js := bus.Shared(f.js)
		defer js.Close()
		log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{Group: least, Answer: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		late := admission(t, call.State{}, "late", "A", time.Minute)
		late.Until = time.Now()
		if _, err := log.Write(ctx, late, nil); !errors.Is(err, call.ErrUnsure) {
			t.Errorf("in groups of %d, too late: %v", least, err)
		}
		if _, err := log.Write(ctx, admission(t, call.State{}, "next", "A", time.Minute), nil); err != nil {
			t.Fatal(err)
		}
		if events, _ := stored(t, f.js); events["late"] > 0 || events["next"] != 1 {
			t.Errorf("in groups of %d, stored: %v", least, events)
		}
		f.srv.Stop()
		together(8, func(i int) {
			e := admission(t, call.State{}, fmt.Sprint("id", i), "A", time.Minute)
			e.Until = time.Now().Add(300 * time.Millisecond)
			if _, err := log.Write(ctx, e, nil); !errors.Is(err, call.ErrUnsure) || ctx.Err() != nil {
				t.Errorf("in groups of %d: %v", least, err)
			}
		})
	}
}

// sameContext is a JetStream over which all is published with one context.
type sameContext struct {
	*bus.SharedJetStream
	t   *testing.T
	ctx context.Context
}

func (s sameContext) PublishAcked(ctx context.Context, msg *nats.Msg, answer time.Duration) (bus.PubAck, error) {
	if ctx != s.ctx {
		s.t.Error("there is a context for a write")
	}
	return s.SharedJetStream.PublishAcked(ctx, msg, answer)
}

// A write that the server takes at once needs no context of its own.
func TestWriteTakesNoContext(t *testing.T) {
	for _, least := range []int{0, 4} {
		f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
		js := sameContext{bus.Shared(f.js), t, t.Context()}
		defer js.Close()
		log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{Group: least})
		if err != nil {
			t.Fatal(err)
		}
		e := admission(t, call.State{}, "id", "A", time.Minute)
		e.Until = time.Now().Add(time.Minute)
		if _, err := log.Write(js.ctx, e, nil); err != nil {
			t.Error(err)
		}
	}
}
