package writer_test

import (
	"log/slog"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// If a newer build has continued the chain, the projector stops with an error and does not treat its segments as
// foreign.
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
