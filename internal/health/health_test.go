package health

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An event that stays unrecorded for long is a failure, because no calls are admitted meanwhile.
func TestDiagnoseRecord(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := diagnoseRecord(t.Context(), js, time.Now()); c.Status != envelope.CheckOK {
		t.Errorf("empty: %+v", c)
	}
	key := subjects.Key{Tool: "echo", ID: "id"}
	for _, subject := range []string{key.Claim(1, "e"), key.Request(1, "1.0.0", "normal", "default")} {
		if _, err := js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if c := diagnoseRecord(t.Context(), js, time.Now()); c.Status != envelope.CheckOK {
		t.Errorf("just written: %+v", c)
	}
	if c := diagnoseRecord(t.Context(), js, time.Now().Add(time.Minute)); c.Status != envelope.CheckFailed || c.Fix == "" {
		t.Errorf("a minute ago: %+v", c)
	}
	idle := diagnosePools(t.Context(), js, map[string][]string{"gpu": {"echo"}}, nil)
	if len(idle) != 1 || idle[0].Status != envelope.CheckWarning {
		t.Errorf("pool without executors: %+v", idle)
	}
}

// A bus of an earlier build, or whose servers have little room, lacks some streams, and works else.
func TestDiagnoseWithoutStreams(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{subjects.LoginsStream, subjects.SurplusStream, subjects.KeptStream} {
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range diagnoseStreams(t.Context(), js) {
		without := bus.Without(c.Name)
		if without == "" && c.Status != envelope.CheckOK || without != "" && (c.Status != envelope.CheckWarning ||
			!strings.Contains(c.Says, without) || !strings.Contains(c.Fix, "room for the stream")) {
			t.Errorf("got %+v", c)
		}
	}
}

// Dead letters are a warning, which names the command that lists them.
func TestDiagnoseDeadLetters(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subjects.DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	subject := strings.NewReplacer("*", "x", ">", "x").Replace(stream.CachedInfo().Config.Subjects[0])
	if _, err := js.Publish(t.Context(), subject, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range diagnoseStreams(t.Context(), js) {
		if c.Name == subjects.DeadStream && (c.Status != envelope.CheckWarning || !strings.Contains(c.Fix, "dead list")) {
			t.Errorf("got %+v", c)
		}
	}
}

// Heartbeats that the server has not removed after their expiry do not count as live executors.
func TestDiagnoseForgottenBeats(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), subjects.PoolSubject("gpu", "ghost"), nil); err != nil {
		t.Fatal(err)
	}
	if c := diagnoseExecutors(t.Context(), js, nil); len(c) != 1 || c[0].Status != envelope.CheckOK {
		t.Errorf("just beaten: %+v", c)
	}
	<-time.After(bus.DefaultLease + 100*time.Millisecond)
	if c := diagnoseExecutors(t.Context(), js, nil); c[0].Status != envelope.CheckFailed ||
		!strings.Contains(c[0].Fix, "`toolbus executor --pool POOL --credentials FILE ") {
		t.Errorf("long ago: %+v", c)
	}
	idle := diagnosePools(t.Context(), js, map[string][]string{"gpu": {"echo"}}, nil)
	if len(idle) != 1 {
		t.Errorf("pool without executors: %+v", idle)
	}
}

// doctor names the executors whose kernel does not keep runs apart, and says what their tools can do.
func TestDiagnoseReach(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools, err := heartbeat.OpenStore(t.Context(), js, bus.DefaultLease)
	if err != nil {
		t.Fatal(err)
	}
	for name, reach := range map[string]supervisor.Reach{
		"new": supervisor.ReachOwn, "old": supervisor.ReachSignals, "older": supervisor.ReachAll,
	} {
		pools.RunsReach = reach
		if err := pools.Beat(t.Context(), "gpu", name); err != nil {
			t.Fatal(err)
		}
	}
	checks := diagnoseExecutors(t.Context(), js, nil)
	if len(checks) != 3 {
		t.Fatalf("got %+v", checks)
	}
	for i, want := range []struct{ says, fix string }{
		{"other runs and the executor: gpu/old", "does not scope signals"}, {"files of other runs: gpu/older", "as root or"},
	} {
		if c := checks[i+1]; c.Status != envelope.CheckWarning || !strings.HasSuffix(c.Says, want.says) ||
			!strings.Contains(c.Fix, want.fix) {
			t.Errorf("got %+v", c)
		}
	}
}

// doctor fails for each tool that executors say they could not run, and names them.
func TestDiagnoseUnrunnable(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools, err := heartbeat.OpenStore(t.Context(), js, bus.DefaultLease)
	if err != nil {
		t.Fatal(err)
	}
	pools.RunsReach = supervisor.ReachOwn
	for name, tools := range map[string][]heartbeat.UnrunnableTool{
		"whole": nil, "one": {{Tool: "a.x", Why: strings.Repeat("é", 200)}},
		"two": {{Tool: "a.x"}, {Tool: "b", Why: "is empty"}},
	} {
		pools.Load = func() heartbeat.Load { return heartbeat.Load{Host: map[string]string{"two": "ant"}[name], PID: 7} }
		pools.Unrunnable = func() []heartbeat.UnrunnableTool { return tools }
		if err := pools.Beat(t.Context(), "gpu", name); err != nil {
			t.Fatal(err)
		}
	}
	checks := diagnoseExecutors(t.Context(), js, nil)
	if len(checks) != 3 {
		t.Fatalf("got %+v", checks)
	}
	for i, want := range []struct{ name, says string }{
		{"tool a.x", "gpu/one; gpu/two (ant, pid 7)"}, {"tool b", "gpu/two (ant, pid 7): is empty"},
	} {
		if c := checks[i+1]; c.Status != envelope.CheckFailed || c.Name != want.name ||
			!strings.Contains(c.Says, want.says) || c.Fix == "" {
			t.Errorf("got %+v", c)
		}
	}
}

// gaining is a JetStream on which an action is done before AUDIT is read for the second time.
type gaining struct {
	jetstream.JetStream
	asked int
	do    func()
}

func (g *gaining) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == subjects.AuditStream {
		if g.asked++; g.asked == 2 {
			g.do()
		}
	}
	return g.JetStream.Stream(ctx, name)
}

// An old event that is being recorded only now, because no dispatcher ran before, is not a failure.
func TestDiagnoseRecordThatMovesOn(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(t.Context(), subjects.Key{Tool: "echo", ID: "id"}.Request(1, "1.0.0", "normal", "default"), nil)
	if err != nil {
		t.Fatal(err)
	}
	moves := &gaining{JetStream: js, do: func() {
		stream, err := js.Stream(t.Context(), ack.Stream)
		if err == nil {
			err = stream.DeleteMsg(t.Context(), ack.Sequence) // deleting the event has the same effect as its expiry
		}
		if err != nil {
			t.Error(err)
		}
	}}
	if c := diagnoseRecord(t.Context(), moves, time.Now().Add(time.Minute)); c.Status != envelope.CheckOK {
		t.Errorf("%+v", c)
	}
}
