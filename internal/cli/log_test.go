package cli_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

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

// What follows from the loss of a connection, which is logged by itself, is left out. Errors are not.
func TestLoggerLeavesOutLost(t *testing.T) {
	unsent := fmt.Errorf("list connections: %w", nats.ErrReconnectBufExceeded)
	for everything, want := range map[bool]int{false: 2, true: 3} {
		var out bytes.Buffer
		log := cli.Logger(&out, everything)
		log.Warn("connections are not listed", "server", "x", "err", unsent)
		log.Warn("connections are not listed", "err", nats.ErrTimeout)
		log.Error("an outcome is not stored", "err", unsent)
		if n := strings.Count(out.String(), "\n"); n != want {
			t.Errorf("everything %t: %s", everything, &out)
		}
	}
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
