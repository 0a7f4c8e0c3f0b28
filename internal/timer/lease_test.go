package timer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// A value counts for less than a second, and then for nothing until it is learned again.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timer.Lease[string]
		known := func(when, want string) {
			t.Helper()
			if v, age, ok := l.Known(); v != want || ok != (want != "") || ok != (age <= timer.LeaseTime) {
				t.Errorf("%s: %q, %s, %t", when, v, age, ok)
			}
		}
		known("at first", "")
		if v, at := l.Last(); v != "" || !at.IsZero() {
			t.Errorf("at first the last value is %q of %s", v, at)
		}
		began := time.Now()
		l.Learn("one", began)
		<-time.After(timer.LeaseTime)
		known("after 900 ms", "one")
		<-time.After(time.Millisecond)
		known("after 901 ms", "")
		if v, at := l.Last(); v != "one" || !at.Equal(began) {
			t.Errorf("the last value is %q of %s", v, at)
		}
		l.Learn("two", time.Now().Add(-800*time.Millisecond)) // the answer to a question that took long
		known("after an old answer", "two")
		l.Learn("older", began)
		known("after an older answer", "two")
		<-time.After(101 * time.Millisecond)
		known("901 ms after the question", "")
	})
}

// Wait returns as soon as there is newer knowledge, and gives up after 300 ms or with its context.
func TestLeaseWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timer.Lease[string]
		time.AfterFunc(200*time.Millisecond, func() { l.Learn("one", time.Now()) })
		for _, c := range []struct {
			when        string
			limit, took time.Duration
			want        string
			err         error
		}{
			{"newer knowledge follows", time.Minute, 200 * time.Millisecond, "one", nil},
			{"the lease runs", time.Minute, 0, "one", nil},
			{"nothing follows", time.Minute, 300 * time.Millisecond, "", nil},
			{"the context ends", 100 * time.Millisecond, 100 * time.Millisecond, "", context.DeadlineExceeded},
		} {
			if c.want == "" {
				<-time.After(time.Second)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			began := time.Now()
			v, ok, err := l.Wait(ctx)
			if took := time.Since(began); v != c.want || ok != (c.want != "") || !errors.Is(err, c.err) || took != c.took {
				t.Errorf("%s: %q, %t, %v after %s", c.when, v, ok, err, took)
			}
			cancel()
		}
	})
}
