package writer_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Where a newer build projects, this one neither projects nor takes its records for strangers'.
func TestProjectorBehindANewerBuild(t *testing.T) {
	f := setup(t)
	f.Admit(1, envelope.PriorityNormal)
	data := []byte(`{"form":3,"source":"log","k":1,"n":1,"count":1,"root":"?"}` + "\n" + `{"form":9}` + "\n")
	if _, err := f.JS.Publish(t.Context(), subjects.Partition(0).Audit("t"), data); err != nil {
		t.Fatal(err)
	}
	if _, _, err := writer.NewProjector(t.Context(), f.JS, 0, slog.New(slog.DiscardHandler),
		func() uint64 { return 0 }); !format.Newer(err) {
		t.Errorf("a projector goes on: %v", err)
	}
	for r, err := range reader.Replay(t.Context(), reader.Streams(f.JS), reader.Filter{}) {
		if !format.Newer(err) {
			t.Errorf("replay goes on with %+v, %v", r, err)
		}
	}
}

// A build before segments stops where this one has begun, which goes on where that one has ended; both are read.
func TestProjectorAfterAnOlderBuild(t *testing.T) {
	f := setup(t)
	first := f.Admit(1, envelope.PriorityNormal)
	f.Decide(first)
	stored, err := f.JS.Stream(t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	event, err := stored.GetMsg(t.Context(), first.Seq)
	if err != nil {
		t.Fatal(err)
	}
	at, err := event.Time.UTC().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	old := &nats.Msg{Subject: "tb.audit.log.t.tool_requested.echo", Header: nats.Header{"Tb-Log-Seq": {"1"}}}
	old.Data = fmt.Appendf(nil,
		`{"form":2,"event":"tool_requested","call_id":"id00001","timestamp_utc":%s,"log_seq":1}`, at)
	if _, err := f.JS.PublishMsg(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	stop := bustest.Run(t, f.project)
	f.recorded("id00001")
	stop()
	audited, err := f.JS.Stream(t.Context(), subjects.AuditStream)
	if err != nil {
		t.Fatal(err)
	}
	last, err := audited.GetLastMsgForSubject(t.Context(), "tb.audit.log.>")
	if err != nil {
		t.Fatal(err)
	}
	// What such a build reads: a record, of a form that it does not know.
	if last.Header.Get("Tb-Log-Seq") != "1" || !strings.HasPrefix(string(last.Data), `{"form":3,`) {
		t.Errorf("it meets %v, %s", last.Header, last.Data)
	}
}

func TestNewerDeadLetter(t *testing.T) {
	f := setup(t)
	ack, err := f.JS.Publish(t.Context(), subjects.Dead("t", "echo"), []byte(`{"form":3,"cause":{"code":"S-TOOL-LOST"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deadletter.DeadLetterAt(t.Context(), reader.Streams(f.JS), ack.Sequence); !format.Newer(err) {
		t.Errorf("shown: %v", err)
	}
	if list, err := deadletter.DeadLetters(t.Context(), reader.Streams(f.JS)); !format.Newer(err) {
		t.Errorf("listed as %+v, %v", list, err)
	}
}
