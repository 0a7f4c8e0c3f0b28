package executor

import (
	"errors"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// errUnrecorded means that the request was not in the audit record when the executor shut down, or received a kill.
var errUnrecorded = errors.New("the record does not hold the request yet")

// unrecorded reports whether the attempt must wait until the audit record holds its request.
func (j *job) unrecorded() bool {
	a, _ := j.state.Attempt(j.attempt)
	return a.Strict && !j.recorded
}

// waitRecorded waits until the audit record holds the request, or until the attempt's deadline or a kill. After these
// it reads the log again, which decides the next step. It waits before the claim, so that an attempt whose request was
// never recorded has no claim.
func (e *Executor) waitRecorded(j *job) error {
	if j.killed.Load() { // although the attempt is open in the log
		return errUnrecorded
	}
	ctx := e.untilDue(j, &j.run)
	defer ctx.Stop()
	e.step(call.TraceUnrecorded, j)
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
	return e.lookUp(j)
}
