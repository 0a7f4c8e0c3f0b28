package chunk

import (
	"testing"
	"time"
)

// Chunks that must be stored and are missing are given up well before the deadline, however short the call is.
func TestPatience(t *testing.T) {
	for timeout, want := range map[int64]time.Duration{1: 500 * time.Microsecond, 3000: 1500 * time.Millisecond,
		4000: 2 * time.Second, 60_000: 2 * time.Second} {
		if got := patience(time.Duration(timeout) * time.Millisecond); got != want {
			t.Errorf("in a call of %d ms: %s, want %s", timeout, got, want)
		}
	}
}
