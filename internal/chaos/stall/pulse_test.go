package stall

import (
	"slices"
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	p := &Pulse{begun: begun}
	for _, n := range [][2]int{{5, 6}, {100, 101}, {110, 310}, {400, 403}} {
		p.note(at(n[0]), at(n[1]), time.Duration(n[1]-n[0])*time.Millisecond)
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

func TestStolen(t *testing.T) {
	text := "cpu  45 26 22 72 7 0 12 24 0 0\ncpu0 22 13 11 36 2 0 3 12 0 0\ncpu1 22 13 11 35 5 0 8 15 0 0\n" +
		"intr 1 2 3 4 5 6 7 8 9\n"
	want := []time.Duration{120 * time.Millisecond, 150 * time.Millisecond}
	if got := stolen([]byte(text)); !slices.Equal(got, want) {
		t.Errorf("taken were %s, want %s", got, want)
	}
	for _, none := range []string{"", "cpu0 1 2 3\n", "cpu0 1 2 3 4 5 6 7 x 9 10\n"} {
		if got := stolen([]byte(none)); got != nil {
			t.Errorf("of %q taken were %s", none, got)
		}
	}
}
