package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
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
		log := cli.Env{Stderr: &out, Terminal: true}.Logger(slog.LevelInfo)
		for i := range 1000 {
			log.With("part", i).Warn("not decided yet", "call", i)
		}
		log.Error("something else")
		log.Debug("a detail")
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
	for level, want := range map[slog.Level]int{slog.LevelInfo: 2, slog.LevelDebug: 3} {
		var out bytes.Buffer
		log := cli.Env{Stderr: &out}.Logger(level)
		log.Warn("connections are not listed", "server", "x", "err", unsent)
		log.Warn("connections are not listed", "err", nats.ErrTimeout)
		log.Error("an outcome is not stored", "err", unsent)
		if n := strings.Count(out.String(), "\n"); n != want {
			t.Errorf("%s: %s", level, &out)
		}
	}
}

// With everything, the logger logs every event.
func TestLoggerOfEverything(t *testing.T) {
	var out bytes.Buffer
	log := cli.Env{Stderr: &out}.Logger(slog.LevelDebug)
	for range 100 {
		log.Debug("event")
	}
	if n := strings.Count(out.String(), "event"); n != 100 {
		t.Errorf("logged %d times, want 100", n)
	}
}

// Events are JSON with the names and forms of 004 §4.2, and text on a terminal.
func TestLoggerForms(t *testing.T) {
	var out bytes.Buffer
	cli.Env{Stderr: &out}.Logger(slog.LevelInfo).Info("ended", "event", "tool_invocation", "took", time.Second)
	var line struct {
		Timestamp time.Time
		Msg       string
		Event     string
	}
	said := out.String()
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Event != "tool_invocation" || line.Msg != "ended" ||
		time.Since(line.Timestamp).Abs() > time.Minute || !strings.Contains(said, `"level":"info"`) ||
		!strings.Contains(said, `"took":"1s"`) {
		t.Errorf("%s: %v", said, err)
	}
	if at := regexp.MustCompile(`^{"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",`); !at.MatchString(said) {
		t.Errorf("%s has no timestamp", said)
	}
	out.Reset()
	cli.Env{Stderr: &out, Terminal: true}.Logger(slog.LevelInfo).Info("ended", "n", 1)
	if said := out.String(); !strings.HasSuffix(said, " level=INFO msg=ended n=1\n") {
		t.Error(said)
	}
}

// No outcome is left out because others have the same message.
func TestLoggerLeavesOutNoOutcome(t *testing.T) {
	var out bytes.Buffer
	log := cli.Env{Stderr: &out}.Logger(slog.LevelInfo)
	for range 100 {
		log.Info("ended", "event", "tool_invocation")
	}
	if n := strings.Count(out.String(), "\n"); n != 100 {
		t.Errorf("logged %d times, want 100", n)
	}
}
