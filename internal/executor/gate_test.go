package executor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// crowd is an executor whose runs take some time, and notes when each begins and ends.
type crowd struct {
	*world
	began time.Time
	long  map[string]time.Duration // time of the runs of a call; one second if it has none

	mu    sync.Mutex
	spans map[string][2]time.Duration
	wg    sync.WaitGroup
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{world: newWorld(t, call.Idempotent), long: map[string]time.Duration{},
		spans: map[string][2]time.Duration{}}
	c.execute = func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		span := [2]time.Duration{time.Since(c.began)}
		d := c.long[inv.CallID]
		if d == 0 {
			d = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
		span[1] = time.Since(c.began)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spans[inv.CallID] = span
		return tool.Result{Output: inv.Input}, ctx.Err()
	}
	c.gone["default/dead"] = true
	c.began = time.Now()
	return c
}

// callID returns the id of the n-th call.
func callID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// add admits the n-th call, which a number of executors have claimed and died.
func (c *crowd) add(n, claims int, timeout time.Duration) executor.Message {
	id := fmt.Sprint("id", n)
	m := c.admitAs(id, callID(n), timeout)
	for i := range claims {
		last, _ := c.log.Read(c.t.Context(), "echo", id)
		_, claim := call.Take(last.State, call.WorkDelivery{
			Attempt: 1, Admitted: m.Entry.State.Seq, Deliveries: 2, By: "default/dead", Nonce: fmt.Sprint("dead.", id, i),
			Now: call.At(time.Now()), Gone: func(string) bool { return true },
		})
		if _, err := c.log.Write(c.t.Context(), claim, nil); err != nil {
			c.t.Fatal(err)
		}
	}
	if claims > 0 {
		return again(m)
	}
	return m
}

// handle delivers a message until it is acknowledged.
func (c *crowd) handle(m executor.Message) {
	c.wg.Go(func() {
		for {
			m.Lease = &holding{}
			c.ex.Handle(c.t.Context(), m)
			h := m.Lease.(*holding)
			if h.acked > 0 {
				return
			}
			pass(h.handedBack[0])
		}
	})
}

// claim returns the claim of the n-th call.
func (c *crowd) claim(n int) call.Claim {
	last, _ := c.log.Read(c.t.Context(), "echo", fmt.Sprint("id", n))
	return *last.State.Last().Claim
}

func (c *crowd) overlap(a, b int) bool {
	x, y := c.spans[callID(a)], c.spans[callID(b)]
	return x[0] < y[1] && y[0] < x[1]
}

// A call that was claimed runs alone, and others before and after it, whether they are suspects or not.
func TestSuspectsRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		const calls = 8
		var messages []executor.Message
		for n := range calls {
			messages = append(messages, c.add(n, n%2, time.Minute))
		}
		for _, m := range messages {
			c.handle(m)
		}
		c.wg.Wait()
		for a := range calls {
			if _, ran := c.spans[callID(a)]; !ran {
				t.Errorf("call %d did not run", a)
			}
			if a%2 == 1 && (c.claim(a).Count != 2 || c.claim(a).Alone != 1) {
				t.Errorf("call %d: %+v", a, c.claim(a))
			}
			for b := range a {
				if (a%2 == 1 || b%2 == 1) && c.overlap(a, b) {
					t.Errorf("calls %d and %d ran at once: %v", b, a, c.spans)
				}
			}
		}
		if all := time.Since(c.began); all > 10*time.Second {
			t.Errorf("%d calls took %s: %v", calls, all, c.spans)
		}
	})
}

// Ordinary calls pass between suspects. There are fewer of these than the tool may have runs: otherwise the call may
// wait for a place among them, before the gate.
func TestSuspectsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		for n := range 6 {
			c.handle(c.add(n, 1, time.Hour))
		}
		pass(time.Second / 2)
		c.handle(c.add(100, 0, time.Hour))
		c.wg.Wait()
		starts := []time.Duration{}
		for _, s := range c.spans {
			starts = append(starts, s[0])
		}
		slices.Sort(starts)
		if s := c.spans[callID(100)]; s[0] > time.Second {
			t.Errorf("the ordinary call began after %s of %v", s[0], starts)
		}
	})
}

// A suspect waits for calls that do not end for half its time, and for 10 s at most. Then it runs beside them, and its
// claim says so.
func TestSuspectBesideOthers(t *testing.T) {
	for name, c := range map[string]struct{ timeout, want time.Duration }{
		"much time":   {time.Hour, 10 * time.Second},
		"little time": {4 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCrowd(t)
				w.long[callID(0)] = time.Minute
				w.handle(w.add(0, 0, time.Hour))
				synctest.Wait()
				w.handle(w.add(1, 1, c.timeout))
				w.wg.Wait()
				if k, s := w.claim(1), w.spans[callID(1)]; s[0] != c.want || k.Count != 2 || k.Alone != 0 {
					t.Errorf("began after %s, %+v", s[0], k)
				}
			})
		})
	}
}

// A suspect is alone for 10 s at most: it may have made a call itself that must run here.
func TestSuspectIsAloneForSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.long[callID(0)] = time.Minute
		c.handle(c.add(0, 1, time.Hour))
		pass(time.Second)
		c.handle(c.add(1, 0, time.Hour))
		c.wg.Wait()
		if s := c.spans[callID(1)]; s[0] < 10*time.Second || s[0] > 11500*time.Millisecond {
			t.Errorf("the other one began after %s", s[0])
		}
	})
}

// A suspect that is cancelled or whose executor ends while it waits lets the others pass.
func TestWaitingSuspectLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.long[callID(0)] = 5 * time.Second
		c.handle(c.add(0, 0, time.Hour))
		synctest.Wait()
		m := c.add(1, 1, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		lease := &holding{}
		m.Lease = lease
		c.wg.Go(func() { c.ex.Handle(ctx, m) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if lease.acked != 0 || lease.declined != 1 {
			t.Errorf("%d acknowledged, %d handed back", lease.acked, lease.declined)
		}
		c.handle(c.add(2, 0, time.Hour))
		c.wg.Wait()
		if s := c.spans[callID(2)]; s[0] != 0 {
			t.Errorf("another call waited for %s", s[0])
		}
	})
}
