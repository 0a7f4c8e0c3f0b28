package bus

import (
	"bytes"
	"log/slog"
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
