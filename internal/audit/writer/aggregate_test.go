package writer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

func by(actor string) kind {
	return kind{call.Sender{Tenant: "t", Actor: actor}, envelope.CodeSchema}
}

// tally counts recorded and counted refusals.
type tally struct {
	full, counted int
	counts        []*count
}

// deny refuses n requests now and reports the opening records as stored.
func (s *tally) deny(f *aggregates, n int, who func(int) kind) {
	for i := range n {
		c, number := f.take(who(i), time.Now())
		if c == nil {
			s.full++
			continue
		}
		if s.counted++; number == 1 {
			s.counts = append(s.counts, c)
			f.opened(c, audit.Record{EventID: fmt.Sprint("open", len(s.counts))}, nil, time.Now())
		}
	}
}

// The refusals of one actor and code are recorded up to the limit per second, and the rest is counted. Meanwhile all
// refusals of others are recorded.
func TestFloodOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFloods()
		var flood, others tally
		for range 50 { // 5 s
			flood.deny(&f, 100, func(int) kind { return by("a") })
			others.deny(&f, 1, func(int) kind { return by("b") })
			<-time.After(100 * time.Millisecond)
		}
		if want := maxDeniedAtOnce + 49*maxDenied/10; flood.full != want || flood.counted != 5000-want ||
			len(flood.counts) != 1 || others.counted != 0 {
			t.Errorf("%+v, %+v, want %d one by one", flood, others, want)
		}
		if over, busy := f.over(time.Now()); len(over) != 0 || !busy {
			t.Errorf("over while it goes on: %d, %t", len(over), busy)
		}
		<-time.After(countQuiet)
		if over, _ := f.over(time.Now()); len(over) != 1 || int(over[0].n) != flood.counted {
			t.Errorf("%+v are over", over)
		}
		<-time.After(maxDeniedAtOnce / maxDenied * time.Second)
		if over, busy := f.over(time.Now()); len(over) != 0 || busy || len(f.kinds) != 0 {
			t.Errorf("%d, %t: %d kinds are left", len(over), busy, len(f.kinds))
		}
	})
}

// A count ends after countTime, also if over is not called. The next refusal then opens another count.
func TestFloodGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFloods()
		var s tally
		begun := time.Now()
		for time.Since(begun) < 2*countTime+countTime/2 {
			s.deny(&f, 50, func(int) kind { return by("a") })
			<-time.After(100 * time.Millisecond)
		}
		over := f.end()
		n := 0
		for _, c := range over {
			n += int(c.n)
		}
		if len(s.counts) != 3 || len(over) != 3 || n != s.counted || len(f.end()) != 0 {
			t.Errorf("%d counts, %d over, %d of %d counted", len(s.counts), len(over), n, s.counted)
		}
	})
}

// A flood of invented names uses one count and little memory.
func TestFloodOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFloods()
		var s tally
		most := 0
		for round := range 80 { // 8 s
			s.deny(&f, 1000, func(i int) kind { return by(fmt.Sprint(round, " ", i)) })
			<-time.After(100 * time.Millisecond)
			f.over(time.Now())
			most = max(most, len(f.kinds))
		}
		if want := maxAllAtOnce + 79*maxDeniedOfAll/10; s.full != want || len(s.counts) != 1 || most > 2*maxAllAtOnce {
			t.Errorf("%d one by one, want %d; %d counts, %d kinds", s.full, want, len(s.counts), most)
		}
		if c := s.counts[0]; c.over != audit.OverDispatcher || int(c.n) != s.counted {
			t.Errorf("%d counted of %d over %s", c.n, s.counted, c.over)
		}
	})
}

// Counted refusals wait until the opening record is stored. If storing fails, all get the error, and the next refusal
// tries again.
func TestFloodIsOpenedFirst(t *testing.T) {
	for _, failed := range []error{nil, audit.ErrRefused} {
		synctest.Test(t, func(t *testing.T) {
			f := newFloods()
			for range maxDeniedAtOnce {
				f.take(by("a"), time.Now())
			}
			first, _ := f.take(by("a"), time.Now())
			var told sync.Map
			for i := range 3 {
				go func() {
					c, n := f.take(by("a"), time.Now())
					id, err := c.wait(t.Context())
					if n < 2 || !errors.Is(err, failed) || id != "opening" {
						t.Errorf("%d: %s, %v", n, id, err)
					}
					told.Store(i, true)
				}()
			}
			synctest.Wait()
			if len(f.end()) != 0 {
				t.Error("over before it is on record")
			}
			told.Range(func(i, _ any) bool { t.Errorf("%v is told before", i); return true })
			f.opened(first, audit.Record{EventID: "opening"}, failed, time.Now())
			synctest.Wait()
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			c, n := f.take(by("a"), time.Now())
			if failed == nil && (c != first || n != 5) || failed != nil && (c == first || n != 1) {
				t.Errorf("%v: %d", failed, n)
			}
			if _, err := c.wait(gone); failed != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("waits though nobody does: %v", err)
			}
		})
	}
}
