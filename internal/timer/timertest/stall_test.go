package timertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// Late returns 0 if timers fire in time.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := timertest.StartStallMeter()
		defer w.End()
		<-time.After(time.Minute)
		if late := w.Late(); late != 0 {
			t.Errorf("%s late", late)
		}
	})
}
