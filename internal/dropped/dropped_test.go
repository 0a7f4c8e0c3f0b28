package dropped

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
		var m Messages
		log := slog.New(slog.NewTextHandler(&out, nil))
		for range 1000 {
			m.Note(log, "forged", "tb.ctl.kill.x")
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("logged at once: %s", &out)
		}
		time.Sleep(Interval + time.Second)
		synctest.Wait()
		if !strings.Contains(out.String(), "messages=999") || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("logged after an interval: %s", &out)
		}
		time.Sleep(Interval)
		synctest.Wait()
		m.Note(log, "forged", "tb.ctl.kill.y")
		if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), "kill.y") {
			t.Errorf("logged later: %s", &out)
		}
	})
}
