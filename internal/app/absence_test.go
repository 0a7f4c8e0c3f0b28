package app

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
)

// A live executor may be silent for a lease, so its pool counts as empty only after that time.
func TestAbsenceIsNoShorterThanALease(t *testing.T) {
	for _, c := range []struct{ lease, asked, want time.Duration }{
		{time.Second, 0, deadline.DefaultPoolAbsence}, {time.Minute, 0, time.Minute},
		{time.Minute, time.Second, time.Minute},
		{time.Second, 3 * time.Second, 3 * time.Second},
	} {
		d := dispatcherProcess{node: &node{Lease: c.lease}, options: DispatcherOptions{PoolAbsence: c.asked}}
		if got := d.absence(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
