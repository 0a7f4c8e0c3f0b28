package flow

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A flood of dropped messages is two lines in a minute: the first of them, and how many more there were.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var m Dropped
		log := slog.New(slog.NewTextHandler(&out, nil))
		said := func() string {
			m.mu.Lock() // held while a line is logged
			defer m.mu.Unlock()
			return out.String()
		}
		for range 1000 {
			m.Note(log, "forged", "tb.ctl.kill.x")
		}
		if n := strings.Count(said(), "\n"); n != 1 {
			t.Errorf("logged at once: %s", said())
		}
		<-time.After(DropLogInterval + time.Second)
		synctest.Wait()
		if !strings.Contains(said(), "messages=999") || strings.Count(said(), "\n") != 2 {
			t.Errorf("logged after an interval: %s", said())
		}
		<-time.After(DropLogInterval)
		synctest.Wait()
		m.Note(log, "forged", "tb.ctl.kill.y")
		if n := strings.Count(said(), "\n"); n != 3 || !strings.Contains(said(), "kill.y") {
			t.Errorf("logged later: %s", said())
		}
	})
}
