package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// take returns the next step, and writes the claim if the step requires one. If a lock stops the call, it sets j.locked
// and writes no claim. The error is errOtherBuild if the step needs the admitted build of the tool and this executor
// does not have it, and lock.ErrStale if it does not know which locks are in force. On a first delivery it uses the
// state in the message and does not read the log: the next compare-and-set proves that state. If it is not certain that
// the delivery is the first one (a server that was killed forgets its counts), take treats it as a second delivery: it
// claims before the run, so that every run has a fence of its own.
func (e *Executor) take(j *job) (call.NextStep, error) {
	if err := e.readState(j); err != nil {
		return 0, err
	}
	for {
		// The clocks differ: an attempt that the server stored after its deadline must not start.
		j.delivery.Now = max(call.At(e.Now()), call.At(j.enqueued()))
		step, claim := call.Take(j.state, j.delivery)
		if j.build == nil && j.needsBuild(step) {
			return 0, errOtherBuild
		}
		if (step == call.Run || step == call.TakeClaim) && j.current().Strict && !j.recorded {
			if err := e.waitRecorded(j); err != nil {
				return 0, err
			}
			continue
		}
		if j.needsBuild(step) && !j.inside {
			if err := e.enter(j); err != nil {
				return 0, err
			}
			continue
		}
		if j.needsBuild(step) && j.claim == "" { // with its claim, the run waits until the locks are known
			if err := j.checkLock(); err != nil || j.locked != nil {
				return step, err
			}
		}
		if step == call.AskTool {
			e.takeOver(j, "the tool does not run again, only its lookup may confirm the effect")
		}
		if step != call.TakeClaim {
			return step, nil
		}
		j.step(call.TraceBeforeClaim)
		after, err := e.CallLog.Write(j.ctx, claim, nil)
		var moved *call.ConflictError
		switch {
		case err == nil:
			e.takeOver(j, "the tool runs again")
			j.state, j.claim = after, j.delivery.Nonce
			j.step(call.TraceAfterClaim)
		case errors.As(err, &moved):
			j.state = moved.State
		default:
			return 0, err
		}
	}
}

// takeOver logs and counts that this executor continues an attempt that another one has claimed, which is gone. The
// log says what comes next. A pure or idempotent call has no claim at its first run, so the loss of that run shows in
// no log.
func (e *Executor) takeOver(j *job, next string) {
	lost := j.current().Claim
	if lost == nil {
		return
	}
	e.Logger.Warn("the executor of a run is gone: "+next, "tool", j.state.Tool, "ref", j.state.Ref(), "attempt",
		j.attempt, "lost", lost.By)
	j.step(call.TraceTakenOver)
}

// readState reads the log of a message that may have been delivered before, or for which a kill was received. A kill
// alone does not make the delivery a second one.
func (e *Executor) readState(j *job) error {
	now := e.Now()
	again := j.delivery.Deliveries > 1 || !e.presence.covers(j.enqueued(), now)
	if !again && !e.jobs.heardKill(j, now) && !j.control.killed.Load() {
		return nil
	}
	last, err := e.CallLog.Read(j.ctx, j.state.Tool, j.state.ID)
	if err != nil {
		return err
	}
	if j.state = last.State; again {
		j.delivery.Deliveries = max(2, j.delivery.Deliveries)
	}
	return nil
}

// errUnrecorded means that the request was not in the audit record when the executor shut down, or received a kill.
var errUnrecorded = errors.New("the record does not hold the request yet")

// waitRecorded waits until the audit record holds the request, or until the attempt's deadline or a kill. After these
// it reads the log again, which decides the next step. It waits before the claim, so that an attempt whose request was
// never recorded has no claim.
func (e *Executor) waitRecorded(j *job) error {
	if j.control.killed.Load() { // although the attempt is open in the log
		return errUnrecorded
	}
	ctx := j.untilDue(&j.control.tool)
	defer ctx.Stop()
	j.step(call.TraceUnrecorded)
	m := &j.message.Entry
	err := e.Watermark.Wait(ctx, m.State.Position, m.Time)
	switch {
	case err == nil:
		j.recorded = true
	case j.ctx.Err() != nil:
		return errUnrecorded
	case ctx.Err() == nil: // the audit record cannot be read
		return err
	}
	return e.readState(j)
}

// gate holds calls back before their tools run. A suspect, see [call.State.Suspect], passes it only once no other call
// is inside, and until it leaves no other one passes. The zero gate is open. It is safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	inside  int           // calls that have passed
	outside int           // calls that are no suspects, and wait
	suspect *job          // that waits to be alone, or is; nil without one
	most    *time.Timer   // ends that time; nil if no suspect has been alone
	changed chan struct{} // closed when a call that waits may pass; nil if none waits
}

// Limits of the waits at a gate. An executor that has a suspect starts nothing else for at most aloneWait + aloneMost.
const (
	gateWait  = time.Second      // then the call is handed back: another executor may be free
	aloneWait = 10 * time.Second // then a suspect runs beside others, and its claim counts half
	aloneMost = 10 * time.Second // then others run beside a suspect: it may wait for a call that it has made itself
)

// errCrowded means that a suspect is alone in the executor, or waits to be, or that the executor shuts down.
var errCrowded = errors.New("a call that may end its executor runs alone here")

// enter waits until the call may run, alone if it is a suspect, and sets delivery.Alone. If the deadline passes or a
// kill comes, it reads the log instead, which decides the next step.
func (e *Executor) enter(j *job) error {
	suspect := j.state.Suspect(j.attempt)
	if !suspect && e.gate.pass(j) {
		return nil
	}
	ctx := j.untilDue(&j.control.tool)
	defer ctx.Stop()
	alone := aloneWait
	if left := j.current().Due().Sub(e.Now()) / 2; left < alone {
		alone = left
	}
	switch passed := e.gate.enter(ctx, j, suspect, alone); {
	case passed:
		return nil
	case ctx.Err() == nil || j.ctx.Err() != nil:
		return errCrowded
	}
	return e.readState(j)
}

// pass lets a call in that is no suspect, unless it must wait.
func (g *gate) pass(j *job) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.let(j, g.suspect == nil)
}

// let counts the call as inside if it may pass. Callers hold g.mu.
func (g *gate) let(j *job, may bool) bool {
	if may {
		j.inside = true
		g.inside++
	}
	return may
}

// enter lets a call in once it may pass; false means that it did not within gateWait, or that ctx ended. A suspect
// that may wait then waits for the calls inside, for at most the time alone.
func (g *gate) enter(ctx context.Context, j *job, suspect bool, alone time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !suspect {
		g.outside++
		passed := g.let(j, g.wait(ctx, gateWait, func() bool { return g.suspect == nil }))
		g.outside--
		g.notify() // suspects let those pass first that waited while another was alone
		return passed
	}
	if !g.wait(ctx, gateWait, func() bool { return g.suspect == nil && g.outside == 0 }) {
		return false
	}
	g.suspect = j
	j.delivery.Alone = g.wait(ctx, alone, func() bool { return g.inside == 0 })
	if passed := g.let(j, j.delivery.Alone || ctx.Err() == nil); !j.delivery.Alone {
		g.open(j)
		return passed
	}
	g.most = time.AfterFunc(aloneMost, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.open(j)
	})
	return true
}

// wait waits until a condition holds, for at most a time, and reports whether it does. Callers hold g.mu, which it
// releases while it waits.
func (g *gate) wait(ctx context.Context, most time.Duration, holds func() bool) bool {
	over := time.NewTimer(most)
	defer over.Stop()
	for !holds() {
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-ctx.Done():
			ended = true
		case <-over.C:
			ended = true
		}
		if g.mu.Lock(); ended {
			return holds()
		}
	}
	return true
}

// leave notes that the call runs no more.
func (g *gate) leave(j *job) {
	if !j.inside {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	j.inside = false
	g.inside--
	g.open(j)
	g.notify()
}

// open lets others pass beside the suspect j. Callers hold g.mu.
func (g *gate) open(j *job) {
	if g.suspect != j {
		return
	}
	g.suspect = nil
	if g.most != nil {
		g.most.Stop()
	}
	g.notify()
}

// notify makes those that wait look again. Callers hold g.mu.
func (g *gate) notify() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
