package health

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An event that is not on record for long is a failure: nothing is admitted meanwhile.
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

// Beats that the server has forgotten to let expire count nobody alive.
func TestDiagnoseForgottenBeats(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), subjects.PoolSubject("gpu", "ghost"), nil); err != nil {
		t.Fatal(err)
	}
	if c := diagnoseExecutors(t.Context(), js); c.Status != envelope.CheckOK {
		t.Errorf("just beaten: %+v", c)
	}
	<-time.After(bus.DefaultLease + 100*time.Millisecond)
	if c := diagnoseExecutors(t.Context(), js); c.Status != envelope.CheckFailed || c.Fix == "" {
		t.Errorf("long ago: %+v", c)
	}
	idle := diagnosePools(t.Context(), js, map[string][]string{"gpu": {"echo"}}, nil)
	if len(idle) != 1 {
		t.Errorf("pool without executors: %+v", idle)
	}
}

// gaining is a JetStream in which something has been done when AUDIT is asked for the second time.
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

// An old event that is put on record only now, because nobody was there before, keeps nobody from calling.
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
			err = stream.DeleteMsg(t.Context(), ack.Sequence) // that it has expired comes to the same
		}
		if err != nil {
			t.Error(err)
		}
	}}
	if c := diagnoseRecord(t.Context(), moves, time.Now().Add(time.Minute)); c.Status != envelope.CheckOK {
		t.Errorf("%+v", c)
	}
}
