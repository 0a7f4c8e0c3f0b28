package timer_test

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Only zero units at the end are left out.
func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", 10 * time.Minute: "10m", 70 * time.Minute: "1h10m", 720 * time.Hour: "720h",
		time.Hour + 20*time.Second: "1h0m20s", -time.Minute: "-1m", 100 * time.Millisecond: "100ms",
	} {
		if got := timer.Text(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
