package dispatcher

import (
	"strconv"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
)

// What is decided costs no memory, also behind an attempt that stays open for long.
func TestGuardForgetsBehindAnOldAttempt(t *testing.T) {
	g := newGuard(time.Now)
	attempt := func(n int) call.Attempt {
		return call.Attempt{N: 1, Admitted: uint64(n), Deadline: call.At(time.Now().Add(time.Hour))}
	}
	g.open("echo", "old", attempt(1), 0)
	const calls = 10_000
	for n := range calls {
		g.open("echo", strconv.Itoa(n), attempt(n+2), 0)
		g.close(strconv.Itoa(n), 1, uint64(n+2))
	}
	if len(g.order) > 2 || g.oldest() != 1 {
		t.Errorf("%d are kept, the oldest at %d", len(g.order), g.oldest())
	}
	g.open("echo", "new", attempt(calls+2), 0)
	if g.close("old", 1, 1); g.oldest() != calls+2 || g.size() != 1 {
		t.Errorf("%d are watched, the oldest at %d", g.size(), g.oldest())
	}
}
