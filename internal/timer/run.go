package timer

import (
	"context"
	"sync"
	"time"
)

// Owner is notified when a run is abandoned.
type Owner interface {
	// Abandoned is called at most once, if the run does not return. The owner must call end in another goroutine. end ends
	// the run and returns its error. Abandoned must not block and must not call methods of the run.
	Abandoned(end func() error)
}

// Guest executes a guarded run.
type Guest interface {
	// Abandon is called at most once, if the run does not return within its grace. It returns the error of the run. The
	// goroutine of the run continues.
	Abandon() error
}

// Run is the context of one run. Its values are those of the watchdog's context. Its methods are safe for concurrent
// use.
type Run struct {
	context.Context
	dog      *Watchdog
	owner    Owner
	deadline time.Time

	// Guarded by dog.mu.
	place Entry[*Run]
	ended bool
	guest Guest // nil while the run is not guarded
	grace time.Duration

	mu    sync.Mutex
	err   error
	done  chan struct{} // made by the first call of Done
	after map[*func()]bool
}

type runKey struct{}

// RunOf returns the run that is ctx or its nearest ancestor, or nil without one.
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

// Err implements [context.Context]. It checks the parent context itself, because the watchdog may not have noticed its
// end yet.
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

// AfterFunc calls f when the run has ended. Package context calls this method for child contexts. Without it, package
// context would start a goroutine for each child.
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

// finish sets the error of the context and calls the registered functions. Later calls do nothing.
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

// Stop ends the run. Further calls do nothing.
func (r *Run) Stop() { r.stop(context.Canceled) }

func (r *Run) stop(err error) {
	r.dog.mu.Lock()
	if !r.ended {
		r.dog.end(r, time.Now())
	}
	r.dog.mu.Unlock()
	r.finish(err)
}

// Guard makes the watchdog abandon the run if it is not released within grace after its end. The run may have ended
// already.
func (r *Run) Guard(grace time.Duration, guest Guest) {
	r.dog.mu.Lock()
	defer r.dog.mu.Unlock()
	if r.guest, r.grace = guest, grace; r.ended {
		r.dog.look(r, time.Now().Add(grace))
	}
}

// Release ends the guard, because the run has returned. It returns false if the run is not guarded or was abandoned
// before.
func (r *Run) Release() bool {
	r.dog.mu.Lock()
	defer r.dog.mu.Unlock()
	return r.release() != nil
}

// Lose abandons a guarded run with err, because its goroutine ends. It returns false if the run is not guarded or was
// abandoned before.
func (r *Run) Lose(err error) bool {
	return r.abandon(func(Guest) error { return err })
}

// abandon calls Owner.Abandoned unless the run was released or abandoned. It holds the lock of the watchdog during that
// call, so that the owner has taken over before Release returns false.
func (r *Run) abandon(end func(Guest) error) bool {
	r.dog.mu.Lock()
	defer r.dog.mu.Unlock()
	guest := r.release()
	if guest != nil {
		r.owner.Abandoned(func() error { return end(guest) })
	}
	return guest != nil
}

// release ends the guard and returns the guest, or nil if the run is not guarded. The caller holds the lock of the
// watchdog.
func (r *Run) release() Guest {
	guest := r.guest
	if r.guest = nil; r.ended {
		r.dog.runs.Remove(&r.place)
	}
	return guest
}
