package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/wait"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		if !wait.For(t.Context(), time.Minute) || time.Since(started) != time.Minute {
			t.Errorf("waited %s", time.Since(started))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		started = time.Now()
		if wait.For(ctx, time.Minute) || time.Since(started) != time.Second {
			t.Errorf("waited %s for what had ended", time.Since(started))
		}
		if wait.For(ctx, 0) || !wait.For(t.Context(), -1) {
			t.Error("no time to wait: only the context counts")
		}
	})
}
