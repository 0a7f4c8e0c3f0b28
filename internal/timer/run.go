package timer

import (
	"context"
	"sync"
	"time"
)

// Owner started a run.
type Owner interface {
	// Abandoned is called at most once, if the run does not return. end, to be called in another goroutine, ends the run
	// and returns its error. Abandoned must not block, nor call the run.
	Abandoned(end func() error)
}

// Guest executes a run.
type Guest interface {
	// Abandon is called at most once, if the run does not return in its grace, and returns the error of the run. The
	// goroutine of the run goes on.
	Abandon() error
}

// Run is the context of one run. Its values are those of the context above the watchdog. Its methods are safe for
// concurrent use.
type Run struct {
	context.Context
	dog      *Watchdog
	owner    Owner
	deadline time.Time

	// Under the lock of the watchdog.
	place Entry[*Run]
	ended bool
	guest Guest // nil while the run is not guarded
	grace time.Duration

	mu    sync.Mutex
	err   error
	done  chan struct{} // nil until it is asked for
	after map[*func()]bool
}

type runKey struct{}

// RunOf returns the run that ctx is, or that it was made from; nil without one.
func RunOf(ctx context.Context) *Run {
	r, _ := ctx.Value(runKey{}).(*Run)
	return r
}

// Value implements [context.Context].
func (r *Run) Value(key any) any {
	if key == (runKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// Deadline implements [context.Context].
func (r *Run) Deadline() (time.Time, bool) {
	if above, ok := r.Context.Deadline(); ok && above.Before(r.deadline) {
		return above, true
	}
	return r.deadline, true
}

// Err implements [context.Context]. It does not wait for the watchdog to see that the context above has ended.
func (r *Run) Err() error {
	if err := r.Context.Err(); err != nil {
		r.stop(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Done implements [context.Context].
func (r *Run) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		if r.done = make(chan struct{}); r.err != nil {
			close(r.done)
		}
	}
	return r.done
}

// AfterFunc has package context call f after the end of the run, where it would start a goroutine that waits for that.
func (r *Run) AfterFunc(f func()) (stop func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		go f()
		return func() bool { return false }
	}
	if r.after == nil {
		r.after = map[*func()]bool{}
	}
	r.after[&f] = true
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		waits := r.after[&f]
		delete(r.after, &f)
		return waits
	}
}

// finish ends the context, once.
func (r *Run) finish(err error) {
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return
	}
	if r.err = err; r.done != nil {
		close(r.done)
	}
	after := r.after
	r.after = nil
	r.mu.Unlock()
	for f := range after {
		(*f)()
	}
}

// Stop ends the run. Stopping it again does nothing.
func (r *Run) Stop() { r.stop(context.Canceled) }

func (r *Run) stop(err error) {
	r.dog.mu.Lock()
	if !r.ended {
		r.dog.end(r, time.Now())
	}
	r.dog.mu.Unlock()
	r.finish(err)
}

// Guard abandons the run if it has ended and is not released for a grace after that.
func (r *Run) Guard(grace time.Duration, guest Guest) {
	r.dog.mu.Lock()
	defer r.dog.mu.Unlock()
	if r.guest, r.grace = guest, grace; r.ended {
		r.dog.look(r, time.Now().Add(grace))
	}
}

// Release says that a guarded run has returned. It reports false if the run was abandoned before.
func (r *Run) Release() bool {
	r.dog.mu.Lock()
	defer r.dog.mu.Unlock()
	return r.release() != nil
}

// Lose abandons a guarded run whose goroutine ends, with err. It reports false if the run was abandoned before.
func (r *Run) Lose(err error) bool {
	return r.abandon(func(Guest) error { return err })
}

// abandon tells the owner that the run does not return, unless it has returned. The owner has taken over before Release
// reports false.
func (r *Run) abandon(end func(Guest) error) bool {
	r.dog.mu.Lock()
	defer r.dog.mu.Unlock()
	guest := r.release()
	if guest != nil {
		r.owner.Abandoned(func() error { return end(guest) })
	}
	return guest != nil
}

// release ends the guard. Callers hold the lock of the watchdog.
func (r *Run) release() Guest {
	guest := r.guest
	if r.guest = nil; r.ended {
		r.dog.runs.Remove(&r.place)
	}
	return guest
}
