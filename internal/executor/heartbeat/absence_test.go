package heartbeat_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// Whoever watches knows since when nobody has lived, however long heartbeats are gone; and is certain only of times
// since it watches, after an executor may have believed to live, and before it looked.
func TestAttendance(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	pools := open(t, js, lease)
	a := heartbeat.NewAbsenceMonitor(pools, time.Now, "default")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { a.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })

	if since := a.AbsentSince("other"); !since.IsZero() {
		t.Errorf("of a pool that nobody watched it is known that it is empty since %s", since)
	}
	deserted := func(ago time.Duration) bool { return a.WasAbsentAt(t.Context(), "default", time.Now().Add(-ago)) }
	waitFor(t, "the pools to be watched", func() bool {
		return !a.AbsentSince("default").IsZero() && !a.AbsentSince("other").IsZero()
	})
	waitFor(t, "certainty that nobody has lived", func() bool { return deserted(lease) })
	if a.WasAbsentAt(t.Context(), "default", began) {
		t.Error("it is certain of a time before it watched")
	}
	if a.WasAbsentAt(t.Context(), "default", time.Now()) {
		t.Error("it is certain of what executors that start now take for new")
	}
	since := a.AbsentSince("default")
	if since.Before(began.Add(-100*time.Millisecond)) || since.After(time.Now().Add(-lease)) {
		t.Errorf("nobody has lived since %s, and it watches since %s", since, began)
	}

	sent := time.Now()
	if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the heartbeat to be seen", func() bool {
		return a.AbsentSince("default").After(sent.Add(-100 * time.Millisecond))
	})
	if a.WasAbsentAt(t.Context(), "default", sent.Add(lease/2)) {
		t.Error("it is certain that nobody lives who has just beaten")
	}
	waitFor(t, "certainty that the executor is gone", func() bool { return deserted(lease / 2) })
	since = a.AbsentSince("default")
	if since.Before(sent.Add(-100*time.Millisecond)) || since.After(sent.Add(lease)) {
		t.Errorf("nobody has lived since %s, and the last heartbeat was at %s", since, sent)
	}
	if a.WasAbsentAt(t.Context(), "default", sent) {
		t.Error("it forgets who has lived")
	}
}

// Who has just begun to watch knows whether it saw an executor since then, however long heartbeats last, and forgets it
// when its connection is interrupted.
func TestSawNone(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, time.Minute)
	var ahead atomic.Int64 // of the clock
	a := heartbeat.NewAbsenceMonitor(pools, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		"default", "busy", "gap")
	before := time.Now()
	if a.SawNone(t.Context(), "default", before) {
		t.Error("it saw none before it looked")
	}
	a.Look(t.Context())
	looked := time.Now()
	waitFor(t, "certainty", func() bool { return a.SawNone(t.Context(), "default", looked) })
	if a.SawNone(t.Context(), "default", before) {
		t.Error("it saw none before it looked")
	}
	if a.WasAbsentAt(t.Context(), "default", looked) {
		t.Error("it is certain before heartbeats are settled")
	}
	if err := pools.Beat(t.Context(), "busy", "e1"); err != nil {
		t.Fatal(err)
	}
	if a.SawNone(t.Context(), "busy", looked) {
		t.Error("it overlooks an executor")
	}
	ahead.Store(int64(31 * time.Second))
	if a.SawNone(t.Context(), "gap", looked) {
		t.Error("it overlooks a gap in which a heartbeat may have come and gone")
	}
	ahead.Store(0)
	srv.Stop()
	srv.Restart()
	var since time.Time
	waitFor(t, "certainty after the interruption", func() bool {
		if a.Look(t.Context()); time.Since(since) > time.Second {
			since = time.Now()
		}
		return a.SawNone(t.Context(), "default", since)
	})
	if a.SawNone(t.Context(), "default", looked) {
		t.Error("it relies on what it saw before the interruption")
	}
}

// After the server's clock was set back, nothing is concluded from times that are yet to come.
func TestAbsenceAfterTheClockWasSetBack(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	step := time.Hour
	a := heartbeat.NewAbsenceMonitor(open(t, js, time.Second), func() time.Time { return time.Now().Add(step) }, "default")
	for _, step = range []time.Duration{time.Hour, 0} {
		a.Look(t.Context())
		now := time.Now().Add(step)
		if since := a.AbsentSince("default"); since.After(now) || since.Before(now.Add(-time.Minute)) {
			t.Errorf("set to %s: nobody has lived since %s", now, since)
		}
	}
}

// Whether what goes behind is pulled is what the newest heartbeat says. One that does not know yet changes nothing.
func TestAttendancePullsBehind(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, time.Minute)
	a := heartbeat.NewAbsenceMonitor(pools, time.Now, "default")
	for _, step := range []struct {
		says func() (overflow, steps heartbeat.OverflowSupport) // nil: as builds do that know nothing of it
		want int
	}{
		{nil, 1},
		{says(heartbeat.PullsUnknown, heartbeat.PullsUnknown), 1},
		{says(heartbeat.PullsAll, heartbeat.PullsMainOnly), 2}, // as builds do that know two steps
		{says(heartbeat.PullsAll, heartbeat.PullsUnknown), 2},
		{says(heartbeat.PullsAll, heartbeat.PullsAll), 4},
		{says(heartbeat.PullsUnknown, heartbeat.PullsAll), 4},
		{says(heartbeat.PullsMainOnly, heartbeat.PullsAll), 1},
		{says(heartbeat.PullsAll, heartbeat.PullsAll), 4},
		{nil, 1},
	} {
		pools.Pulls = step.says
		if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
			t.Fatal(err)
		}
		if a.Look(t.Context()); a.Steps("default") != step.want {
			t.Errorf("after %+v it is not %d", step, step.want)
		}
	}
	if a.Steps("other") != 0 {
		t.Error("nothing is known of another pool")
	}
}

func says(overflow, steps heartbeat.OverflowSupport) func() (overflow, steps heartbeat.OverflowSupport) {
	return func() (_, _ heartbeat.OverflowSupport) { return overflow, steps }
}

// After an interruption, in which nobody could beat, absence counts from its end.
func TestAttendanceAfterAnInterruption(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	a := heartbeat.NewAbsenceMonitor(open(t, js, lease), time.Now, "default")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { a.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	waitFor(t, "certainty", func() bool { return a.WasAbsentAt(t.Context(), "default", time.Now().Add(-lease)) })
	certain := time.Now().Add(-lease)
	srv.Stop()
	srv.Restart()
	back := time.Now()
	waitFor(t, "the pool to be looked at again", func() bool { return a.AbsentSince("default").After(back.Add(-lease)) })
	if a.WasAbsentAt(t.Context(), "default", certain) {
		t.Error("it is certain of what was before the interruption")
	}
}
