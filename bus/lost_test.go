package bus

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A stream that was deleted is not created again in silence. The streams of a new bus are.
func TestLostStreamIsNamed(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	var log bytes.Buffer
	o := TopologyOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 2 {
		if err := Ensure(t.Context(), js, o); err != nil || log.Len() > 0 {
			t.Fatalf("%v, %s", err, &log)
		}
	}
	for name, lost := range losses() {
		log.Reset()
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := Ensure(t.Context(), js, o); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"level=WARN", "stream=" + name, lost[:10]} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: %q is not in %s", name, want, &log)
			}
		}
		if strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("%s: %s", name, &log)
		}
	}
	if _, ok := losses()[subjects.ControlStream]; !ok {
		t.Error("the keys and revocations are not among them")
	}
}

// A process that starts while another one makes the streams of a new bus names none as lost, however many there are.
func TestNewBusHasLostNothing(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	for _, c := range Streams(TopologyOptions{Partitions: 1}) {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if gone, err := lost(t.Context(), js); err != nil || len(gone) > 0 {
			t.Errorf("with the streams as far as %s: %v, %v", c.Name, gone, err)
		}
	}
	last := subjects.RunsStream
	if err := js.DeleteStream(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if gone, err := lost(t.Context(), js); err != nil || !slices.Equal(gone, []string{last}) {
		t.Errorf("without %s: %v, %v", last, gone, err)
	}
}
