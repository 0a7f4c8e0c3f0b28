package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopLimit is the time that the stop of one part may take. The parts have limits of their own, which are shorter.
const stopLimit = time.Minute

// stops is a stack of the stops of a process's parts. It is not safe for concurrent use.
type stops struct {
	log *slog.Logger
	all []namedStop
}

type namedStop struct {
	part string
	stop func() error
}

// push adds the stop of a part that has started.
func (s *stops) push(part string, stop func()) {
	s.pushErr(part, func() error { stop(); return nil })
}

// pushErr is push for a stop that may fail.
func (s *stops) pushErr(part string, stop func() error) { s.all = append(s.all, namedStop{part, stop}) }

// stop stops all parts, the newest first, and logs each at level DEBUG. It returns err if no stop failed, and otherwise
// err joined with the errors of the stops, each with the name of its part. A part that does not stop within stopLimit
// is such an error: the next parts are stopped, and its goroutine is left. A second call stops nothing.
func (s *stops) stop(err error) error {
	for len(s.all) > 0 {
		last := s.all[len(s.all)-1]
		s.all = s.all[:len(s.all)-1]
		if failed := last.run(); failed != nil {
			err = errors.Join(err, fmt.Errorf("stop %s: %w", last.part, failed))
		}
		s.log.Debug("stopped", "part", last.part)
	}
	return err
}

func (n namedStop) run() error {
	done := make(chan error, 1)
	go func() { done <- n.stop() }()
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-limit.C:
		return fmt.Errorf("it has not stopped within %s", stopLimit)
	}
}

// startAll calls functions in goroutines of their own, with the values of ctx. stop ends their context, and waits for
// them.
func startAll(ctx context.Context, all ...func(context.Context)) (stop func()) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, run := range all {
		running.Go(func() { run(ctx) })
	}
	return func() { end(); running.Wait() }
}

// background holds the goroutines of a process that outlive its intake, because requests and runs in progress need
// them.
type background struct {
	ctx    context.Context // ends at stop, or with the first error of a goroutine, which is its cause
	cancel context.CancelFunc
	group  *errgroup.Group
}

// newBackground returns a background with the values of ctx, which does not end with ctx.
func newBackground(ctx context.Context) *background {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	return &background{ctx, cancel, group}
}

// run starts goroutines.
func (b *background) run(all ...func(context.Context)) {
	for _, do := range all {
		b.group.Go(func() error { do(b.ctx); return nil })
	}
}

// stop ends the context and waits for the goroutines. It returns the error of a goroutine that failed to stop.
func (b *background) stop() error {
	failed := b.failure()
	b.cancel()
	if err := b.group.Wait(); failed == nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// failure returns the first error of a goroutine that failed before stop.
func (b *background) failure() error {
	if cause := context.Cause(b.ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
