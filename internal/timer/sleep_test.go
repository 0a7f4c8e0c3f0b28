package timer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		if !timer.Sleep(t.Context(), time.Minute) || time.Since(started) != time.Minute {
			t.Errorf("waited %s", time.Since(started))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		started = time.Now()
		if timer.Sleep(ctx, time.Minute) || time.Since(started) != time.Second {
			t.Errorf("waited %s for what had ended", time.Since(started))
		}
		if timer.Sleep(ctx, 0) || !timer.Sleep(t.Context(), -1) {
			t.Error("no time to wait: only the context counts")
		}
	})
}
