package answer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// However many acceptances are held back, they are looked at every 50 ms and no more often, each is told less than
// 50 ms after it is due, and nobody looks while there is none.
func TestAcceptancesAreLookedAtTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := acceptances{first: make(chan struct{}, 1)}
		looks, told := 0, 0
		go timer.Repeat(t.Context(), h.first, func() time.Duration {
			now := time.Now()
			due, next := h.due(now)
			for _, a := range due {
				if late := now.Sub(a.due); late < 0 || late >= lookEvery {
					t.Errorf("late by %s", late)
				}
			}
			looks++
			told += len(due)
			return next
		})
		const each = 300
		for range each {
			h.hold(acceptance{due: time.Now().Add(patience)})
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if most := 2 + int((each*time.Millisecond+patience)/lookEvery); told != each || looks > most {
			t.Errorf("%d of %d told, in %d looks", told, each, looks)
		}
	})
}
