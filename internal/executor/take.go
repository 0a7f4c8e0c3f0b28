package executor

import (
	"errors"

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
		if j.needsBuild(step) {
			if err := j.checkLock(); err != nil || j.locked != nil {
				return step, err
			}
		}
		if step != call.TakeClaim {
			return step, nil
		}
		j.step(call.TraceBeforeClaim)
		after, err := e.CallLog.Write(j.ctx, claim, nil)
		var moved *call.ConflictError
		switch {
		case err == nil:
			j.state, j.claim = after, j.delivery.Nonce
			j.step(call.TraceAfterClaim)
		case errors.As(err, &moved):
			j.state = moved.State
		default:
			return 0, err
		}
	}
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
