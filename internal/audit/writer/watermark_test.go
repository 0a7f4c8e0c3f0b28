package writer

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// coverage runs a Watermark until the test ends.
func coverage(t *testing.T, js jetstream.JetStream) *Watermark {
	t.Helper()
	c := NewWatermark(js, 1, slog.New(slog.DiscardHandler))
	bustest.Run(t, c.Run)
	return c
}

// recordNext records the first unrecorded event and returns its position.
func recordNext(b *bustest.Bus) audit.Position {
	b.T.Helper()
	p, seq, err := NewProjector(b.T.Context(), b.JS, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
	if err != nil {
		b.T.Fatal(err)
	}
	e, err := b.Log.Get(b.T.Context(), call.Position{Seq: seq})
	if err != nil {
		b.T.Fatal(err)
	}
	p.Observe(b.T.Context(), kv.FollowedEvent{Kind: e.Kind, Attempt: e.Attempt, State: e.State, Seq: seq, Time: e.Time})
	f := p.next()
	if err := p.flush(b.T.Context(), f); err != nil {
		b.T.Fatal(err)
	}
	return f.segment.Through
}

// at returns the position of an event.
func at(b *bustest.Bus, seq uint64) audit.Position {
	b.T.Helper()
	stream, err := b.JS.Stream(b.T.Context(), subjects.Partition(0).Stream())
	if err != nil {
		b.T.Fatal(err)
	}
	msg, err := stream.GetMsg(b.T.Context(), seq)
	if err != nil {
		b.T.Fatal(err)
	}
	return audit.Position{Seq: seq, Time: msg.Time}
}

// wants waits until an event is recorded.
func wants(t *testing.T, c *Watermark, at audit.Position) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Wait(ctx, call.Position{Seq: at.Seq}, at.Time); err != nil {
		t.Fatalf("event %d: %v", at.Seq, err)
	}
}

// The Watermark follows the record only after the first Wait. It then knows of older records, and of records that came
// while it was disconnected.
func TestCoverage(t *testing.T) {
	b := bustest.Start(t)
	c := coverage(t, b.JS)
	admit(b, 0, "t")
	first := recordNext(b)
	stream, err := b.JS.Stream(t.Context(), subjects.AuditStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers, and nobody waits", n)
	}
	wants(t, c, first)
	for n := range 3 {
		admit(b, n+1, "t")
		wants(t, c, recordNext(b))
		b.Srv.Restart()
	}
}

// A log that lost its end uses sequences again: the new event counts as unrecorded, although another one was recorded
// there.
func TestCoverageOfALogThatLostItsEnd(t *testing.T) {
	b := bustest.Start(t)
	c := coverage(t, b.JS)
	admit(b, 0, "t")
	before := recordNext(b)
	wants(t, c, before)
	dir := b.Saved()
	admit(b, 1, "t")
	lost := recordNext(b)
	wants(t, c, lost)
	b.Restored(dir)
	admit(b, 2, "t")
	now := at(b, lost.Seq)
	if covered, _, err := c.has(call.Position{Seq: now.Seq}, now.Time); covered || err != nil {
		t.Errorf("%t, %v: the record holds what was at %d before", covered, err, lost.Seq)
	}
	if again := recordNext(b); !again.Time.Equal(now.Time) || again.Seq != now.Seq {
		t.Errorf("recorded up to %+v, want %+v", again, now)
	}
	wants(t, c, now)
}

// deaf is a server whose first consumer delivers nothing.
type deaf struct {
	jetstream.JetStream
	made int
}

func (d *deaf) OrderedConsumer(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
) (jetstream.Consumer, error) {
	if d.made++; d.made == 1 {
		cfg.OptStartSeq += 1000
	}
	return d.JetStream.OrderedConsumer(ctx, stream, cfg)
}

// While a caller waits, the Watermark reads the chain if its consumer delivers nothing.
func TestCoverageLooksUp(t *testing.T) {
	b := bustest.Start(t)
	c := coverage(t, &deaf{JetStream: b.JS})
	admit(b, 0, "t")
	wants(t, c, recordNext(b))
	for n := range 2 {
		admit(b, n+1, "t")
		wants(t, c, recordNext(b))
	}
}

// Wait returns an error if only a newer build can read the record.
func TestCoverageOfANewerBuild(t *testing.T) {
	b := bustest.Start(t)
	c := coverage(t, b.JS)
	_, err := b.JS.Publish(t.Context(), subjects.Partition(0).Audit("t"), []byte(`{"form":99}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context(), call.Position{Seq: 1}, time.Now()); err == nil {
		t.Error("it is taken for recorded")
	}
}

// The Watermark continues when the leader of AUDIT changes.
func TestCoverageOverLeaders(t *testing.T) {
	nc := natstest.StartCluster(t, 3)[0].Connect(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bustest.Bus{T: t, NC: nc, JS: js, Log: log}
	c, p := coverage(t, js), observed(b)
	bustest.Run(t, func(ctx context.Context) {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for n := range 3 {
		admit(b, n, "t")
		wants(t, c, at(b, uint64(n+1)))
		if _, err := nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+subjects.AuditStream, nil, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// A strict request is recorded without lingering. Other requests, and the outcome, wait for the linger time.
func TestStrictRequestsDoNotLinger(t *testing.T) {
	b := bustest.Start(t)
	admit(b, 0, "t")
	if !observed(b).lingers() {
		t.Error("a request that nobody waits for is not waited with")
	}
	now := time.Now()
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: "id", Actor: "agent"}, Fingerprint: "fp", Nonce: "q", Strict: true,
		Pinned: call.Pinned{Tenant: "t", Tool: "echo", ID: "id", Version: "1.0.0", Class: call.Pure, Pool: "default",
			Fingerprint: "fp"},
		Deadline: call.At(now.Add(time.Minute)), Now: call.At(now),
	})
	if _, err := b.Log.Write(t.Context(), v.Event, []byte(`{"request":{}}`)); err != nil {
		t.Fatal(err)
	}
	p := observed(b)
	if p.lingers() {
		t.Error("a strict request is waited with")
	}
	if err := p.flush(t.Context(), p.next()); err != nil {
		t.Fatal(err)
	}
	p.add([]audit.Record{{LogSeq: 100}}, 0)
	if !p.lingers() {
		t.Error("what comes after a strict request is not waited with")
	}
}
