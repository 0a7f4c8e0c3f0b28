package flow_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// One sender with a hundred pieces of work does not delay that of another by more than the one under way and one more.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := flow.NewTurns(1)
		many, other := flow.Sender{Tenant: "a", Actor: "x"}, flow.Sender{Tenant: "b", Actor: "y"}
		next := make(chan struct{})
		waited, done, running := 0, 0, 0
		work := func(from flow.Sender) {
			end, err := turns.Take(t.Context(), from, func() { waited++ })
			if err != nil {
				t.Error(err)
				return
			}
			if running++; running > 1 {
				t.Errorf("%d at a time", running)
			}
			<-next
			running--
			end()
			done++
		}
		for range 100 {
			go work(many)
			synctest.Wait()
		}
		finished := make(chan int)
		go func() { work(other); finished <- done }()
		synctest.Wait()
		if waited != 100 {
			t.Errorf("%d of 101 had to wait", waited)
		}
		before := -1
		for n := range 101 {
			next <- struct{}{}
			synctest.Wait()
			select {
			case before = <-finished:
				if n > 2 {
					t.Errorf("the other sender was the %dth", n+1)
				}
			default:
			}
		}
		if before < 0 || done != 101 {
			t.Errorf("%d of 101 were done, the other's at %d", done, before)
		}
		end, err := turns.Take(t.Context(), many, func() { t.Error("nobody is before it") })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := turns.Take(ctx, other, cancel); err != context.Canceled {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
		end()
	})
}
