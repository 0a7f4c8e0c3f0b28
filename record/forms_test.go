package record_test

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/record"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Where a newer build projects, this one neither projects nor takes its records for strangers'.
func TestProjectorBehindANewerBuild(t *testing.T) {
	f := setup(t)
	f.Admit(1, envelope.PriorityNormal)
	subject := subjects.Audit(subjects.Part(0).AuditSource(), "t", "tool_requested", "echo")
	data := []byte(`{"form":3,"event":"tool_requested","timestamp_utc":"2026-11-20T12:00:00Z"}`)
	if _, err := f.JS.PublishMsg(t.Context(),
		&nats.Msg{Subject: subject, Data: data, Header: nats.Header{"Tb-Log-Seq": {"1"}}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := record.NewProjector(t.Context(), f.JS, 0, slog.New(slog.DiscardHandler),
		func() uint64 { return 0 }); !form.Newer(err) {
		t.Errorf("a projector goes on: %v", err)
	}
	for r, err := range record.Replay(t.Context(), f.JS, record.Filter{}) {
		if !form.Newer(err) {
			t.Errorf("replay goes on with %+v, %v", r, err)
		}
	}
}

func TestNewerDeadLetter(t *testing.T) {
	f := setup(t)
	ack, err := f.JS.Publish(t.Context(), subjects.Dead("t", "echo"), []byte(`{"form":3,"cause":{"code":"S-TOOL-LOST"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.DeadLetterAt(t.Context(), f.JS, ack.Sequence); !form.Newer(err) {
		t.Errorf("shown: %v", err)
	}
	if list, err := record.DeadLetters(t.Context(), f.JS); !form.Newer(err) {
		t.Errorf("listed as %+v, %v", list, err)
	}
}
