package bus_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// newer writes an event as a build of the next form would, behind s, and returns its position.
func (f *fixture) newer(s call.State) uint64 {
	f.t.Helper()
	e, left := call.JoinAll(s, 1, []string{"later"}, "n.1")
	if len(left) > 0 {
		f.t.Fatal("no room")
	}
	return f.raw(kv.EventSubject(e), "3"+kv.EncodeEvent(e)[1:])
}

// raw puts a message into the call log with this header for its event.
func (f *fixture) raw(subject, event string) uint64 {
	f.t.Helper()
	ack, err := f.js.PublishMsg(f.t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{subjects.HeaderEvent: {event}}})
	if err != nil {
		f.t.Fatal(err)
	}
	return ack.Sequence
}

func isForm(err error) bool {
	_, ok := errors.AsType[*form.Error](err)
	return ok
}

// A follower stops at an event that it cannot read, and skips nothing.
func TestFollowerStopsAtANewerEvent(t *testing.T) {
	f := setup(t)
	s := f.admit(1, envelope.PriorityNormal)
	at := f.newer(s)
	f.admit(2, envelope.PriorityNormal)
	var seen []uint64
	err := bus.NewFollower(f.js, 0).Run(t.Context(), 1, func(o bus.Observed) { seen = append(seen, o.Seq) })
	u, ok := errors.AsType[*bus.Unreadable](err)
	if !ok || u.Seq != at || !form.Newer(err) || len(seen) != 1 || seen[0] != s.Seq {
		t.Fatalf("%v after %d", err, seen)
	}
	stream, err := f.js.Stream(t.Context(), subjects.Part(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	u.Gone(t.Context(), f.js) // it has expired, say
}

// What is in the log of a key is unknown to a build that cannot read it: it is neither empty nor what it was before.
func TestNewerEventInTheLogOfAKey(t *testing.T) {
	f := setup(t)
	s := f.admit(1, envelope.PriorityNormal)
	f.newer(s)
	if last, err := f.log.Read(t.Context(), s.Tool, s.ID); !form.Newer(err) || !last.State.Empty() {
		t.Errorf("%+v, %v", last.State, err)
	}
	r := call.Decide(s, 1, s.Last().Admitted, call.Ending{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "d.1", Now: s.Last().Deadline})
	if _, err := f.log.Write(t.Context(), r.Event, nil); !form.Newer(err) || !errors.Is(err, call.ErrUnsure) {
		t.Errorf("a write behind it: %v", err)
	}
}

// locked is a buffer that several goroutines may write to.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *locked) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.String()), "\n")
}

// Work that an executor cannot read stays in the queue, for one that can. It says so once.
func TestWorkOfANewerBuild(t *testing.T) {
	f := setup(t)
	readable := f.admit(1, envelope.PriorityNormal)
	s := f.admit(2, envelope.PriorityNormal)
	e := call.Event{Kind: call.Requested, Attempt: 1, Nonce: "qid00003", State: s}
	e.State.ID = "id00003"
	newer := f.raw(kv.EventSubject(e), "3"+kv.EncodeEvent(e)[1:])
	handled := make(chan uint64, 10)
	w, err := bus.NewWorkers(t.Context(), f.js, "default", 8, time.Minute, func(_ context.Context, w bus.Work) {
		handled <- w.Entry.State.Seq
		w.Ack()
	})
	if err != nil {
		t.Fatal(err)
	}
	var out locked
	w.Log = slog.New(slog.NewTextHandler(&out, nil))
	stop := start(t, func(ctx context.Context) { w.Run(ctx, ctx, f.nc) })
	for range 2 {
		if got := <-handled; got == newer || got < readable.Seq {
			t.Errorf("%d was handled", got)
		}
	}
	cons, err := f.js.Consumer(t.Context(), subjects.Part(0).Stream(), subjects.Worker("default", "normal"))
	if err != nil {
		t.Fatal(err)
	}
	redelivered := func() (i *jetstream.ConsumerInfo) { // it comes again, and is left again
		for i == nil || i.NumRedelivered == 0 || i.Delivered.Consumer < 5 {
			if i, err = cons.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return i
	}
	if i := redelivered(); i.AckFloor.Stream >= newer {
		t.Errorf("everything up to %d is acknowledged, and %d is not handled", i.AckFloor.Stream, newer)
	}
	stop()
	if lines := out.lines(); len(lines) != 1 || !strings.Contains(lines[0], "update this process") {
		t.Errorf("logged %q", lines)
	}
}

// Where a newer build projects, this one neither projects nor takes its records for strangers'.
func TestProjectorBehindANewerBuild(t *testing.T) {
	f := setup(t)
	f.admit(1, envelope.PriorityNormal)
	subject := subjects.Audit(subjects.Part(0).AuditSource(), "t", "tool_requested", "echo")
	record := []byte(`{"form":3,"event":"tool_requested","timestamp_utc":"2026-11-20T12:00:00Z"}`)
	if _, err := f.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: record, Header: nats.Header{"Tb-Log-Seq": {"1"}}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bus.NewProjector(t.Context(), f.js, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 }); !form.Newer(err) {
		t.Errorf("a projector goes on: %v", err)
	}
	for r, err := range bus.ReplayAudit(t.Context(), f.js, bus.AuditFilter{}) {
		if !form.Newer(err) {
			t.Errorf("replay goes on with %+v, %v", r, err)
		}
	}
}

func TestNewerDeadLetter(t *testing.T) {
	f := setup(t)
	ack, err := f.js.Publish(t.Context(), subjects.Dead("t", "echo"), []byte(`{"form":3,"cause":{"code":"S-TOOL-LOST"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.DeadLetterAt(t.Context(), f.js, ack.Sequence); !form.Newer(err) {
		t.Errorf("shown: %v", err)
	}
	if list, err := bus.DeadLetters(t.Context(), f.js); !form.Newer(err) {
		t.Errorf("listed as %+v, %v", list, err)
	}
}

// Streams of Toolbus 0.1 are refused by name, and those of a later release.
func TestStreamsOfOtherBuilds(t *testing.T) {
	f := setup(t)
	for metadata, says := range map[string]string{"": "Toolbus 0.1", "3": "update this process"} {
		stream, err := f.js.Stream(t.Context(), subjects.Part(0).Stream())
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		c.Metadata = map[string]string{subjects.MetaForm: metadata}
		if metadata == "" {
			c.Metadata, c.MaxMsgsPerSubject = nil, 64 // as 0.1 made it
		}
		if _, err := f.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := bus.Ensure(t.Context(), f.js, bus.TopologyOptions{}); !isForm(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", metadata, err)
		}
	}
}

// An executor of Toolbus 0.1 is named, as long as it is alive; whatever else somebody put there is not.
func TestOldExecutor(t *testing.T) {
	f := setup(t)
	pools, err := kv.OpenPools(t.Context(), f.js, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for body, old := range map[string]bool{"e1": true, "": false, "garbage": false, `{"form":2,"pool":"default","instance":"e1"}`: false, `{"form":3}`: false} {
		if _, err := f.js.Publish(t.Context(), subjects.PoolSubject("default", "e1"), []byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := pools.Old(t.Context()); isForm(err) != old || old && !strings.Contains(err.Error(), "e1") {
			t.Errorf("%q: %v", body, err)
		}
	}
}
