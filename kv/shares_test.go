package kv_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An actor that keeps more than an eighth of a log that is half full is over its share, with its sub-actors, until
// enough of it has expired. Its tenant has a quarter, and others are not concerned.
func TestShares(t *testing.T) {
	const size = 8000
	a, sub := subjects.Owner{Tenant: "t", Actor: "agent://a"}, subjects.Owner{Tenant: "t", Actor: "agent://a/b"}
	other, root := subjects.Owner{Tenant: "t", Actor: "agent://ab"}, subjects.Owner{Tenant: "t", Actor: "agent:"}
	over := func(s *kv.FillLevel, of subjects.Owner, want int64) {
		t.Helper()
		if used, share := s.Over(of); used != want || (want > 0) != (share > 0) {
			t.Errorf("%v keeps %d, share %d; want %d", of, used, share, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := kv.NewFillLevel(size, 50)
		s.Add(a, 600, time.Now().Add(10*time.Minute))
		over(s, a, 0)
		s.Add(sub, 500, time.Now().Add(time.Hour))
		over(s, a, 1100)
		over(s, sub, 1100)
		over(s, other, 0)
		over(s, root, 0)
		<-time.After(11 * time.Minute) // in the bubble
		over(s, a, 0)
		s.Add(other, 1600, time.Now().Add(time.Minute))
		over(s, a, 2100) // of the tenant
		over(s, subjects.Owner{Tenant: "u", Actor: "agent://a"}, 0)
		s.Add(other, 1600, time.Now()) // has expired
		<-time.After(2 * time.Minute)
		over(s, a, 0)
	})
	s := kv.NewFillLevel(size, 49)
	s.Add(a, size, time.Now().Add(time.Hour))
	over(s, a, 0)
}

// The shares are counted from the log, of all its partitions, also by a process that was not there before.
func TestSharesOfALog(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{CallsBytes: 8 << 20, Partitions: 2})
	large := bytes.Repeat([]byte("x"), 400<<10)
	for n := range 16 {
		id := strconv.Itoa(n)
		if _, err := f.log.Write(t.Context(), admission(t, call.State{}, id, "A"+id, time.Minute), large); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		fill := f.log.FillLevel(slog.New(slog.DiscardHandler))
		running.Go(func() { fill.Run(ctx) })
		for used, tick := int64(0), time.NewTicker(10*time.Millisecond); used < 16*int64(len(large)); <-tick.C {
			if ctx.Err() != nil {
				t.Fatalf("%d bytes of the actor were counted", used)
			}
			used, _ = fill.Over(subjects.Owner{Tenant: "t", Actor: "a"})
		}
		if used, share := fill.Over(subjects.Owner{Tenant: "u", Actor: "a"}); used+share > 0 {
			t.Errorf("another tenant keeps %d, of %d", used, share)
		}
		cancel()
		running.Wait()
	}
}
