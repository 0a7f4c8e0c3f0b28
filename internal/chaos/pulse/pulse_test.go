package pulse

import (
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	p := &Pulse{begun: begun}
	for _, n := range [][2]int{{5, 6}, {100, 101}, {110, 310}, {400, 403}} {
		p.note(at(n[0]), at(n[1]))
	}
	for _, tc := range []struct{ from, to, want int }{
		{0, 40, 1}, {50, 90, 0}, {100, 105, 200}, {200, 201, 200}, {310, 320, 200}, {360, 390, 0}, {390, 5000, 3},
		{-10, 0, 1},
	} {
		if got := p.Late(at(tc.from), at(tc.to)); got != time.Duration(tc.want)*time.Millisecond {
			t.Errorf("between %d and %d ms it was %s late, want %d ms", tc.from, tc.to, got, tc.want)
		}
	}
}
