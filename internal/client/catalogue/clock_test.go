package catalogue

import (
	"testing"
	"time"
	"unsafe"

	"github.com/seed-018f16cc/toolbus/bus"
)

// set returns t, a time of time.Now, as it would be had the wall clock been set by so many seconds. There
// is no other way to make one: the wall clock's seconds lie above 30 bits of nanoseconds in its first word.
func set(t time.Time, seconds int) time.Time {
	*(*int64)(unsafe.Pointer(&t)) += int64(seconds) << 30
	return t
}

// That the wall clock is set makes no deadline of a client earlier.
func TestBusTimeOfAClientWhoseClockIsSet(t *testing.T) {
	begun := time.Now()
	now := begun.Add(time.Hour).Round(0)
	for _, by := range []int{-3600, -30, 0, 30, 3600} {
		later := set(begun.Add(time.Second), by)
		c := Catalogue{now: func() time.Time { return later }, clock: bus.Reading{Local: begun, Bus: now}}
		if got := c.BusTime().Sub(now); got != time.Duration(1+max(0, by))*time.Second {
			t.Errorf("set by %d s: a second later the client takes it for %s", by, got)
		}
	}
}
