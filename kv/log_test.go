package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// faulty is a JetStream whose publishes go wrong as a test wants.
type faulty struct {
	*bus.SharedJetStream
	mu sync.Mutex
	// publish, if set, replaces the publish; do does the real one.
	publish func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error)
}

func (f *faulty) PublishAcked(ctx context.Context, m *nats.Msg, answer time.Duration) (bus.PubAck, error) {
	f.mu.Lock()
	publish := f.publish
	f.mu.Unlock()
	do := func() (*jetstream.PubAck, error) {
		a, err := f.SharedJetStream.PublishAcked(ctx, m, answer)
		return &jetstream.PubAck{Sequence: a.Sequence, Duplicate: a.Duplicate}, err
	}
	if publish == nil {
		publish = func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) { return do() }
	}
	a, err := publish(do)
	if err != nil {
		return bus.PubAck{}, err
	}
	return bus.PubAck{Sequence: a.Sequence, Duplicate: a.Duplicate}, nil
}

func (f *faulty) set(p func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish = p
}

type fixture struct {
	srv *natstest.Server
	js  *faulty
	log *kv.Log
}

func setup(t *testing.T, o kv.LogOptions, topology bus.TopologyOptions) *fixture {
	t.Helper()
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, topology); err != nil {
		t.Fatal(err)
	}
	f := &fixture{srv: srv, js: &faulty{SharedJetStream: bus.Shared(js)}}
	if f.log, err = kv.OpenLog(t.Context(), f.js, o); err != nil {
		t.Fatal(err)
	}
	return f
}

// admission returns the event that opens the log of id, or its next attempt.
func admission(t *testing.T, s call.State, id, callID string, timeout time.Duration) call.Event {
	t.Helper()
	now := time.Now()
	v := call.Admit(s, call.AdmitRequest{
		Owner: call.Owner{CallID: callID, Actor: "a"}, Fingerprint: "fp", Priority: envelope.PriorityNormal,
		Pinned: call.Pinned{Tenant: "t", Tool: "web.fetch", ID: id, Version: "1.0.0", Class: call.SideEffectful,
			Pool: "default", Fingerprint: "fp"},
		Deadline: call.At(now.Add(timeout)), Now: call.At(now), Nonce: "q-" + callID,
	})
	if v.Do != call.Write {
		t.Fatalf("admit: %v", v.Do)
	}
	return v.Event
}

func claim(t *testing.T, s call.State, by string) call.Event {
	t.Helper()
	step, e := call.Take(s, call.WorkDelivery{Attempt: 1, Admitted: s.Last().Admitted, Deliveries: 1, By: by,
		Nonce: "c-" + by,
		Now:   call.At(time.Now()), Gone: func(string) bool { return false }})
	if step != call.TakeClaim {
		t.Fatalf("take: %v", step)
	}
	return e
}

func timeout(s call.State, nonce string) call.Event {
	return call.Decide(s, 1, s.Last().Admitted,
		call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: nonce, Now: call.At(time.Now())}).Event
}

var body = []byte(`{"response":{"ok":true}}`)

func TestWriteAndRead(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	empty, err := f.log.Read(t.Context(), "web.fetch", "id1")
	if err != nil || !empty.State.Empty() {
		t.Fatalf("%+v, %v", empty, err)
	}
	s, err := f.log.Write(t.Context(), admission(t, call.State{}, "id1", "A", time.Minute), []byte(`{"request":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Seq == 0 || s.Last().Admitted != s.Seq {
		t.Errorf("state %+v", s)
	}
	claimed, err := f.log.Write(t.Context(), claim(t, s, "e1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if claimed.Last().Claim.Fence != claimed.Seq {
		t.Errorf("fence %d, sequence %d", claimed.Last().Claim.Fence, claimed.Seq)
	}
	decided, err := f.log.Write(t.Context(), timeout(claimed, "g"), body)
	if err != nil {
		t.Fatal(err)
	}
	last, err := f.log.Read(t.Context(), "web.fetch", "id1")
	if err != nil || last.State.Seq != decided.Seq || last.Kind != call.Decided || string(last.Body) != string(body) {
		t.Errorf("%+v, %v", last, err)
	}
	first, err := f.log.Get(t.Context(), s.Position)
	if err != nil || first.Kind != call.Requested || first.State.Last().Admitted != s.Seq || first.Time.IsZero() {
		t.Errorf("%+v, %v", first, err)
	}
	if none, err := f.log.Get(t.Context(), call.Position{Seq: 999}); err != nil || !none.State.Empty() {
		t.Errorf("%+v, %v", none, err)
	}
}

// One of many writers on different subjects of one log wins; all others are told the log as it is.
func TestOneWinner(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	for round := range 20 {
		id := fmt.Sprint("id", round)
		s, err := f.log.Write(t.Context(), admission(t, call.State{}, id, "A", time.Minute), nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for n := range 8 {
			wg.Go(func() {
				e := timeout(s, fmt.Sprint("g", n))
				if n%2 == 0 {
					e = claim(t, s, fmt.Sprint("e", n))
				}
				_, err := f.log.Write(t.Context(), e, body)
				var moved *call.ConflictError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case !errors.As(err, &moved) || moved.State.Seq <= s.Seq:
					t.Errorf("loser got %v", err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Fatalf("%d winners", won)
		}
	}
}

// Whatever happens to the acknowledgement, a write that was applied is known to be.
func TestUncertainAnswers(t *testing.T) {
	for name, publish := range map[string]func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error){
		"lost acknowledgement": func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
			_, _ = do()
			return nil, nats.ErrTimeout
		},
		"applied twice": func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
			_, _ = do()
			return do()
		},
		"in process elsewhere": func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
			_, _ = do()
			return nil, &jetstream.APIError{ErrorCode: 10164}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
			f.js.set(publish)
			s, err := f.log.Write(t.Context(), admission(t, call.State{}, "id1", "A", time.Minute), nil)
			if err != nil {
				t.Fatal("admission:", err)
			}
			s, err = f.log.Write(t.Context(), claim(t, s, "e1"), nil)
			if err != nil {
				t.Fatal("claim:", err)
			}
			if s, err = f.log.Write(t.Context(), timeout(s, "g"), body); err != nil {
				t.Fatal("outcome:", err)
			}
			if s.Last().Decision.Nonce != "g" {
				t.Errorf("decision %+v", s.Last().Decision)
			}
			stream, err := f.js.Stream(t.Context(), subjects.Partition(0).Stream())
			if err != nil {
				t.Fatal(err)
			}
			if n := stream.CachedInfo().State.Msgs; n != 3 {
				t.Errorf("%d events stored, want 3", n)
			}
		})
	}
}

// A write that was not applied is tried until it is.
func TestRetriesUntilApplied(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	tries := 0
	f.js.set(func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
		if tries++; tries < 4 {
			return nil, nats.ErrNoResponders
		}
		return do()
	})
	if _, err := f.log.Write(t.Context(), admission(t, call.State{}, "id1", "A", time.Minute), nil); err != nil ||
		tries != 4 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// A server that can be read and takes no writes is told apart from one that answers late, or is away.
func TestSilence(t *testing.T) {
	f := setup(t, kv.LogOptions{Answer: 200 * time.Millisecond}, bus.TopologyOptions{})
	write := func(id string, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := f.log.Write(ctx, admission(t, call.State{}, id, "A", time.Minute), nil)
		return err
	}
	lost := func(func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
		return nil, context.DeadlineExceeded
	}
	f.js.set(lost)
	if err := write("id1", 2*time.Second); !errors.Is(err, call.ErrUnsure) || f.log.UnackedFor() <= 0 {
		t.Errorf("no write was taken: %v, silence %s", err, f.log.UnackedFor())
	}
	f.js.set(nil)
	if err := write("id2", 30*time.Second); err != nil || f.log.UnackedFor() != 0 {
		t.Errorf("a write was taken: %v, silence %s", err, f.log.UnackedFor())
	}
	f.js.set(lost)
	if err := write("id4", 2*time.Second); !errors.Is(err, call.ErrUnsure) || f.log.UnackedFor() <= 0 {
		t.Errorf("no write was taken again: %v, silence %s", err, f.log.UnackedFor())
	}
	f.srv.Stop()
	f.srv.Restart()
	for f.js.Conn().Stats().Reconnects == 0 {
		_ = f.js.Conn().FlushTimeout(100 * time.Millisecond) // fails until the client has reconnected
	}
	if silence := f.log.UnackedFor(); silence != 0 {
		t.Errorf("the server was restarted: silence %s", silence)
	}
	f.js.set(nil)
	f.js.set(lost)
	f.srv.Stop()
	if err := write("id3", time.Second); !errors.Is(err, call.ErrUnsure) || f.log.UnackedFor() != 0 {
		t.Errorf("the server is away: %v, silence %s", err, f.log.UnackedFor())
	}
}

// Without a server the answer is unsure, never "not written".
func TestUnsure(t *testing.T) {
	f := setup(t, kv.LogOptions{Answer: 100 * time.Millisecond}, bus.TopologyOptions{})
	known, err := f.log.Write(t.Context(), admission(t, call.State{}, "id2", "A", time.Minute), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.srv.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = f.log.Write(ctx, admission(t, call.State{}, "id1", "A", time.Minute), nil)
	if !errors.Is(err, call.ErrUnsure) {
		t.Errorf("got %v", err)
	}
	again, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer end()
	if _, err := f.log.Write(again, claim(t, known, "e1"), nil); !errors.Is(err, call.ErrUnsure) {
		t.Errorf("of a log with events: %v", err)
	}
	if _, err := f.log.Read(ctx, "web.fetch", "id1"); err == nil {
		t.Error("an unreachable log was read as empty")
	}
	if _, err := f.log.Get(ctx, call.Position{Seq: 1}); err == nil {
		t.Error("an unreachable log was read as empty")
	}
}

func TestFull(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{CallsBytes: 64 << 10})
	big := make([]byte, 40<<10)
	if _, err := f.log.Write(t.Context(), admission(t, call.State{}, "id1", "A", time.Minute), big); err != nil {
		t.Fatal(err)
	}
	_, err := f.log.Write(t.Context(), admission(t, call.State{}, "id2", "A", time.Minute), big)
	if !errors.Is(err, call.ErrFull) {
		t.Errorf("got %v", err)
	}
	if _, err := f.log.Write(t.Context(), admission(t, call.State{}, "id3", "A", time.Minute),
		make([]byte, 2<<20)); !errors.Is(err, call.ErrTooLarge) {
		t.Error("an event above the server's limit was written")
	}
}

// A log that is full when a write is tried again says nothing of the first try, which may be
// stored yet.
func TestFullAfterNoAnswer(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	tries := 0
	f.js.set(func(do func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
		switch tries++; {
		case tries == 1:
			return nil, nats.ErrTimeout
		case tries < 4:
			return nil, &jetstream.APIError{ErrorCode: 10077}
		}
		return do() // the first try arrives
	})
	if _, err := f.log.Write(t.Context(), admission(t, call.State{}, "id1", "A", time.Minute), nil); err != nil ||
		tries != 4 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// Requests go first, outcomes stay: a decided call never looks open (H12).
func TestExpiry(t *testing.T) {
	f := setup(t, kv.LogOptions{Expiry: call.Expiry{Grace: time.Second, Margin: 2 * time.Second}}, bus.TopologyOptions{})
	s, err := f.log.Write(t.Context(), admission(t, call.State{}, "id1", "A", 500*time.Millisecond), nil)
	if err != nil {
		t.Fatal(err)
	}
	decided, err := f.log.Write(t.Context(), timeout(s, "g"), body)
	if err != nil {
		t.Fatal(err)
	}
	for {
		last, err := f.log.Read(t.Context(), "web.fetch", "id1")
		if err != nil {
			t.Fatal(err)
		}
		// after the last: however long this takes, it may be gone and the last not
		first, err := f.log.Get(t.Context(), s.Position)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !first.State.Empty() && last.State.Empty():
			t.Fatal("the outcome went before the request")
		case !last.State.Empty() && last.State.Seq != decided.Seq:
			t.Fatalf("a marker became the last event: %+v", last)
		case last.State.Empty():
			return // both are gone: the key runs again
		}
		<-time.After(50 * time.Millisecond)
	}
}

// An operator's delete of a key is not an event of the log: what stood before counts, and the
// log goes on behind it.
func TestForeignWrite(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	key := subjects.Key{Tool: "web.fetch", ID: "id1"}
	s, err := f.log.Write(t.Context(), admission(t, call.State{}, "id1", "A", time.Minute), nil)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := f.js.Publish(t.Context(), key.Join(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	last, err := f.log.Read(t.Context(), "web.fetch", "id1")
	if err != nil || last.State.Seq != ack.Sequence || last.State.Last().Admitted != s.Seq {
		t.Fatalf("%+v, %v", last, err)
	}
	if _, err := f.log.Write(t.Context(), timeout(last.State, "g"), body); err != nil {
		t.Error(err)
	}
	if _, err := f.js.Publish(t.Context(), subjects.Key{Tool: "web.fetch", ID: "id2"}.Join(1), nil); err != nil {
		t.Fatal(err)
	}
	if last, err := f.log.Read(t.Context(), "web.fetch", "id2"); err != nil || len(last.State.Attempts) != 0 {
		t.Errorf("%+v, %v", last, err)
	}
}

func TestLogNeedsTopology(t *testing.T) {
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.OpenLog(t.Context(), js, kv.LogOptions{}); err == nil {
		t.Error("opened a log that is not there")
	}
}

// An id has its log in one partition, and all that is read and written of it is there.
func TestLogInPartitions(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{Partitions: 3})
	if n := f.log.Partitions(); n != 3 {
		t.Fatalf("%d partitions", n)
	}
	used := map[subjects.Partition]int{}
	for n := range 30 {
		id := fmt.Sprintf("id%02d", n)
		s, err := f.log.Write(t.Context(), admission(t, call.State{}, id, "A", time.Minute), nil)
		if err != nil {
			t.Fatal(err)
		}
		used[s.Partition]++
		last, err := f.log.Read(t.Context(), "web.fetch", id)
		if err != nil || last.State.Partition != s.Partition || last.State.Seq != s.Seq ||
			s.Partition != subjects.PartitionOf(id, 3) {
			t.Errorf("%s was written to %d of partition %d, and is read at %d of %d: %v", id, s.Seq, s.Partition, last.State.Seq,
				last.State.Partition, err)
		}
		at, err := f.log.Get(t.Context(), s.Position)
		if err != nil || at.State.ID != id || at.State.Partition != s.Partition {
			t.Errorf("%s: at its place is %q of partition %d: %v", id, at.State.ID, at.State.Partition, err)
		}
		if _, err := f.log.Write(t.Context(), admission(t, call.State{}, id, "B", time.Minute), nil); err == nil {
			t.Errorf("%s was admitted twice", id)
		}
		if _, err := f.log.Write(t.Context(), timeout(last.State, "g"), body); err != nil {
			t.Error(err)
		}
	}
	if len(used) != 3 {
		t.Errorf("logs by partition: %v", used)
	}
	if _, err := f.log.Get(t.Context(), call.Position{Partition: 3, Seq: 1}); err == nil {
		t.Error("a partition that is not there is read")
	}
}

// Events returns what is stored of one log, in order and without bodies.
func TestEvents(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{Partitions: 2})
	for _, id := range []string{"id1", "id2"} {
		s, err := f.log.Write(t.Context(), admission(t, call.State{}, id, "A", time.Minute), []byte(`{"request":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if s, err = f.log.Write(t.Context(), claim(t, s, "e1"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err = f.log.Write(t.Context(), timeout(s, "t-1"), body); err != nil {
			t.Fatal(err)
		}
	}
	all, err := f.log.Events(t.Context(), "web.fetch", "id2", 0)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, kind := range []call.Kind{call.Requested, call.Claimed, call.Decided} {
		if e := all[i]; e.Kind != kind || e.State.ID != "id2" || e.Body != nil || e.Time.IsZero() || e.Attempt != 1 {
			t.Errorf("%+v, want %s", e, kind)
		}
	}
	if all, err = f.log.Events(t.Context(), "web.fetch", "id3", 0); err != nil || len(all) > 0 {
		t.Errorf("of no call: %+v, %v", all, err)
	}
}

// Events from the request of an attempt on are those of that attempt and of later ones, with the whole state.
func TestEventsFromARequest(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	var s call.State
	write := func(e call.Event, data []byte) {
		t.Helper()
		var err error
		if s, err = f.log.Write(t.Context(), e, data); err != nil {
			t.Fatal(err)
		}
	}
	request := []byte(`{"request":{}}`)
	write(admission(t, s, "id1", "A", time.Minute), request)
	write(timeout(s, "t-1"), body) // nobody has claimed it, so another attempt may follow
	write(admission(t, s, "id1", "B", time.Minute), request)
	all, err := f.log.Events(t.Context(), "web.fetch", "id1", s.Last().Admitted)
	if err != nil || len(all) != 1 || all[0].Attempt != 2 || len(all[0].State.Attempts) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}
