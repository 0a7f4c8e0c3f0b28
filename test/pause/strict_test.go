package pause

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// segments is a server whose storing of segments can be stopped at: "before-1" is before the first of a flush,
// "after-2" is when the second is stored and the writer does not know.
type segments struct {
	jetstream.JetStream
	stop *stop
	mu   sync.Mutex
	n    int
}

func (s *segments) PublishMsg(
	ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt,
) (*jetstream.PubAck, error) {
	if fence, _ := strings.CutSuffix(subjects.Partition(0).AuditLog(), "*"); !strings.HasPrefix(m.Subject, fence) {
		return s.JetStream.PublishMsg(ctx, m, opts...)
	}
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	s.stop.at(fmt.Sprint("before-", n))
	ack, err := s.JetStream.PublishMsg(ctx, m, opts...)
	s.stop.at(fmt.Sprint("after-", n))
	return ack, err
}

// projector puts what the log holds on record, all of it in one flush, and stops at s. What it returns is closed when
// it has ended.
func (w *world) projector(ctx context.Context, s *stop) (ended <-chan struct{}) {
	w.t.Helper()
	js := jetstream.JetStream(&segments{JetStream: w.js, stop: s})
	p, from, err := writer.NewProjector(ctx, js, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
	if err != nil {
		w.t.Fatal(err)
	}
	follower, caught := kv.NewFollower(w.js, 0), make(chan struct{})
	go func() { // ends with ctx
		if err := follower.Run(ctx, from, func(o kv.FollowedEvent) { p.Observe(ctx, o) }); err != nil {
			w.t.Error(err)
		}
		close(caught)
	}()
	if err := follower.CatchUp(ctx); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends with ctx, or dies at its stop
		defer close(done)
		if err := p.Run(ctx); err != nil {
			w.t.Error(err)
		}
		<-caught
	}()
	return done
}

// admitBeside writes an admission of another tenant, whose records are a segment of their own.
func (w *world) admitBeside() {
	w.t.Helper()
	now := time.Now()
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: callC, Actor: actor}, Fingerprint: "fp", Priority: envelope.PriorityNormal, Nonce: "q.1",
		Pinned: call.Pinned{
			Tenant: "beside", Tool: "chaos.read", ID: "beside" + w.key, Version: "1.0.0", Class: call.Pure, Pool: "default",
			Fingerprint: "fp",
		},
		Deadline: call.At(now.Add(time.Hour)), Now: call.At(now),
	})
	if _, err := w.log.Write(w.t.Context(), v.Event, []byte(`{"request":{}}`)); err != nil {
		w.t.Fatal(err)
	}
}

// covering runs what an executor knows of the record until ctx ends.
func (w *world) covering(ctx context.Context) (c *writer.Watermark, ended <-chan struct{}) {
	c, done := writer.NewWatermark(w.js, 1, slog.New(slog.DiscardHandler)), make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		c.Run(ctx)
	}()
	return c, done
}

// started reports whether a tool was started.
func (w *world) started() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.effects) > 0
}

// TestStrictWaitsForTheRecord stops the writer of the record at every step of the flush that holds a strict request,
// lets it die there, and lets another one finish. The tool starts neither before nor in between; and once all of the
// flush is stored, it starts without a word of the writer.
func TestStrictWaitsForTheRecord(t *testing.T) {
	const last = "after-2"
	for _, tool := range []string{"chaos.put", "chaos.pay"} {
		for _, first := range []bool{true, false} { // whether the request is in the first segment of the flush
			for _, point := range []string{"before-1", "after-1", "before-2", last} {
				for _, delivery := range []int{1, 2} {
					t.Run(fmt.Sprint(tool, " ", first, " ", point, " ", delivery), func(t *testing.T) {
						newBase(t).strict(t, tool, first, delivery, stopAt(point), point == last)
					})
				}
			}
		}
	}
}

func (b *base) strict(t *testing.T, tool string, first bool, delivery int, writing *stop, stored bool) {
	w := b.world(t, tool)
	ctx, cancel := context.WithCancel(t.Context())
	w.strict = true
	if !first {
		w.admitBeside()
	}
	w.end(w.ask(w.dispatcher("d1", nil, nil), callA, 1, time.Minute).done, "the dispatcher")
	if first {
		w.admitBeside()
	}
	coverage, known := w.covering(ctx)
	w.coverage = coverage
	m, h := w.message(delivery)
	waits := stopAt("unrecorded")
	ran := w.hand(w.executor("e1", waits, nil, nil), m)
	w.waitOr(waits, ran)
	waits.dies <- false

	dying := w.projector(ctx, writing)
	w.wait(writing)
	if stored {
		w.end(ran, "the executor") // nobody needs the writer any more
	} else if w.started() {
		t.Error("it was started, and its request is not on record")
	}
	writing.dies <- true
	w.end(dying, "the writer")
	if !stored && w.started() {
		t.Error("it was started when the writer died")
	}
	next := w.projector(ctx, nil)
	w.end(ran, "the executor")
	if !h.isAcked() || !w.started() {
		t.Error("it was not started in the end")
	}
	cancel()
	w.end(next, "the second writer")
	w.end(known, "the coverage")
	w.judge()
}

// waitOr waits for a stop that has to be reached before something ends.
func (w *world) waitOr(s *stop, ended <-chan struct{}) {
	w.t.Helper()
	select {
	case <-s.reached:
	case <-ended:
		w.t.Fatalf("%s was not reached", s.point)
	case <-time.After(patience):
		w.t.Fatalf("%s was not reached", s.point)
	}
}

// TestStrictIsJudged: the checker finds a run that began before its request was on record.
func TestStrictIsJudged(t *testing.T) {
	w := newBase(t).world(t, "chaos.put")
	ctx, cancel := context.WithCancel(t.Context())
	w.strict, w.coverage = true, blind{}
	w.end(w.ask(w.dispatcher("d1", nil, nil), callA, 1, time.Minute).done, "the dispatcher")
	w.work(w.executor("e1", nil, nil, nil), 1)
	written := w.projector(ctx, nil)
	if err := writer.WaitRecorded(ctx, w.js); err != nil {
		t.Fatal(err)
	}
	cancel()
	w.end(written, "the writer")
	w.convict("P4 strict")
}

// blind takes everything for recorded.
type blind struct{}

func (blind) Wait(context.Context, call.Position, time.Time) error { return nil }

// kept reads the segments.
func (w *world) kept() (all []checker.Segment) {
	w.t.Helper()
	stream, err := w.js.Stream(context.WithoutCancel(w.t.Context()), subjects.AuditStream)
	if err != nil {
		w.t.Fatal(err)
	}
	var kept checker.Kept
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(context.WithoutCancel(w.t.Context()), seq)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := kept.Add(m.Data, seq, m.Time); err != nil {
			w.t.Fatal(err)
		}
	}
	return slices.Clone(kept.Segments)
}
