package cli_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// A message that repeats, as while a server is away, does not flood the log, and does not hide other messages.
func TestLoggerIsSparing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := cli.Logger(&out, false)
		for i := range 1000 {
			log.With("part", i).Warn("not decided yet", "call", i)
		}
		log.Error("something else")
		log.Info("a detail")
		if n := strings.Count(out.String(), "not decided yet"); n != 10 {
			t.Errorf("said %d times, want 10", n)
		}
		if !strings.Contains(out.String(), "something else") || strings.Contains(out.String(), "a detail") {
			t.Errorf("logged %s", &out)
		}
		out.Reset()
		<-time.After(10 * time.Second) // time of the synctest bubble
		log.Warn("not decided yet", "call", 1000)
		if !strings.Contains(out.String(), "call=1000 left_out=990") {
			t.Errorf("logged %s", &out)
		}
	})
}

// With everything, the logger logs every event.
func TestLoggerOfEverything(t *testing.T) {
	var out bytes.Buffer
	log := cli.Logger(&out, true)
	for range 100 {
		log.Debug("event")
	}
	if n := strings.Count(out.String(), "event"); n != 100 {
		t.Errorf("logged %d times, want 100", n)
	}
}
