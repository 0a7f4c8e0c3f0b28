package timer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type key string

const (
	limit = 10 * time.Second
	grace = time.Second
)

// seen is the observable state of a context, its children and its AfterFuncs.
type seen struct {
	deadline                         time.Duration
	err, cause, child, timed, values error
	value                            any
	done, childDone, called, stopped bool
}

// see calls end, waits until ctx has ended, and returns its state.
func see(t *testing.T, ctx context.Context, end func()) (s seen) {
	t.Helper()
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	timed, stop := context.WithTimeout(ctx, time.Hour)
	defer stop()
	called, dropped := make(chan struct{}), false
	context.AfterFunc(ctx, func() { close(called) })
	drop := context.AfterFunc(ctx, func() { dropped = true })
	if !drop() || ctx.Err() != nil || context.Cause(ctx) != nil || child.Err() != nil {
		t.Error("it has ended before its time")
	}
	due, _ := ctx.Deadline()
	s.deadline = time.Until(due)
	end()
	<-ctx.Done()
	synctest.Wait()
	select {
	case <-child.Done():
		s.childDone = true
	default:
	}
	select {
	case <-called:
		s.called = true
	default:
	}
	s.done, s.stopped = true, !dropped
	s.err, s.cause, s.child, s.timed = ctx.Err(), context.Cause(ctx), child.Err(), timed.Err()
	s.values, s.value = context.WithValue(ctx, key("b"), 2).Err(), ctx.Value(key("a"))
	late := make(chan struct{})
	if context.AfterFunc(ctx, func() { close(late) })() {
		t.Error("a function that is added after the end waits")
	}
	<-late
	return s
}

// A run behaves like a context of package context.
func TestContext(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		above func(context.Context) (context.Context, func()) // returns the parent context, and a function that ends the run
	}{
		"deadline": {func(ctx context.Context) (context.Context, func()) { return ctx, nil }},
		"stopped":  {func(ctx context.Context) (context.Context, func()) { return ctx, nil }},
		"above":    {func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) }},
		"above, a cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(why) }
		}},
		"above, its deadline": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, limit/2)
			return ctx, func() { <-ctx.Done(); cancel() }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				look := func(start func(context.Context) (context.Context, func())) seen {
					above, end := c.above(context.WithValue(t.Context(), key("a"), 1))
					ctx, stop := start(above)
					defer stop()
					if end == nil {
						end = func() {}
					}
					if name == "stopped" {
						end = stop
					}
					return see(t, ctx, end)
				}
				want := look(func(ctx context.Context) (context.Context, func()) { return context.WithTimeout(ctx, limit) })
				got := look(func(ctx context.Context) (context.Context, func()) {
					run := timer.NewWatchdog(ctx).Start(time.Now().Add(limit), nil)
					return run, run.Stop
				})
				if got != want {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
			})
		})
	}
}

// If the parent context has ended, Err returns an error at once.
func TestEndIsSeenAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dog := timer.NewWatchdog(ctx)
	run := dog.Start(time.Now().Add(time.Hour), nil)
	if cancel(); run.Err() != context.Canceled {
		t.Errorf("got %v", run.Err())
	}
	<-run.Done()
	if late := dog.Start(time.Now().Add(time.Hour), nil); late.Err() != context.Canceled {
		t.Errorf("a run that is started after it: %v", late.Err())
	}
	if over := timer.NewWatchdog(t.Context()).Start(time.Now(), nil); over.Err() != context.DeadlineExceeded {
		t.Errorf("a run that is started at its deadline: %v", over.Err())
	}
}

// ward is owner and guest of a run that is abandoned.
type ward struct {
	began time.Time
	told  chan error
}

var errLost = errors.New("lost")

func (w *ward) Abandoned(end func() error) { go func() { w.told <- end() }() }
func (w *ward) Abandon() error             { return errLost }

// A run that does not return is abandoned once, one grace after its end, however it ends and whenever it is guarded.
func TestAbandon(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(run *timer.Run, cancel func())
		late bool // Guard is called after the end of the run
		want time.Duration
	}{
		"deadline":              {func(*timer.Run, func()) {}, false, limit + grace},
		"stopped":               {func(run *timer.Run, _ func()) { run.Stop() }, false, grace},
		"above":                 {func(_ *timer.Run, cancel func()) { cancel() }, false, grace},
		"stopped, then guarded": {func(run *timer.Run, _ func()) { run.Stop() }, true, grace},
		"stopped twice": {func(run *timer.Run, cancel func()) {
			run.Stop()
			cancel()
		}, false, grace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				dog := timer.NewWatchdog(ctx)
				w := &ward{began: time.Now(), told: make(chan error, 2)}
				run := dog.Start(time.Now().Add(limit), w)
				others := []*timer.Run{dog.Start(time.Now().Add(limit/2), w), dog.Start(time.Now().Add(2*limit), w)}
				for _, o := range others { // these runs return in time
					o.Guard(grace, w)
				}
				if c.late {
					c.end(run, cancel)
					run.Guard(grace, w)
				} else {
					run.Guard(grace, w)
					c.end(run, cancel)
				}
				for _, o := range others {
					if !o.Release() {
						t.Error("a run that returns was abandoned")
					}
				}
				if err := <-w.told; err != errLost || time.Since(w.began) != c.want {
					t.Errorf("%v after %s, want %s", err, time.Since(w.began), c.want)
				}
				if run.Release() || run.Lose(errLost) {
					t.Error("an abandoned run has returned")
				}
				<-time.After(3 * limit)
				if len(w.told) > 0 {
					t.Error("abandoned more than once, or one that had returned")
				}
			})
		})
	}
}

// Lose abandons a run at once.
func TestLose(t *testing.T) {
	w := &ward{told: make(chan error, 1)}
	run := timer.NewWatchdog(t.Context()).Start(time.Now().Add(time.Hour), w)
	run.Guard(time.Hour, w)
	why := errors.New("gone")
	if !run.Lose(why) || <-w.told != why || run.Release() {
		t.Error("not lost")
	}
	run.Stop()
}

// RunOf returns the run above a context, and the nearest one if there are two.
func TestOf(t *testing.T) {
	run := timer.NewWatchdog(t.Context()).Start(time.Now().Add(time.Hour), nil)
	defer run.Stop()
	child, cancel := context.WithCancel(run)
	defer cancel()
	inner := timer.NewWatchdog(child).Start(time.Now().Add(time.Hour), nil)
	defer inner.Stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		want *timer.Run
	}{
		"itself": {run, run}, "with values": {context.WithValue(run, key("a"), 1), run},
		"a child": {child, run}, "two": {inner, inner}, "another": {t.Context(), nil},
	} {
		if got := timer.RunOf(c.ctx); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Starting a run costs one allocation.
func TestAllocations(t *testing.T) {
	dog := timer.NewWatchdog(t.Context())
	w := new(ward)
	if n := testing.AllocsPerRun(1000, func() {
		run := dog.Start(time.Now().Add(time.Hour), w)
		run.Guard(grace, w)
		_ = run.Err()
		if !run.Release() {
			t.Error("abandoned")
		}
		run.Stop()
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
