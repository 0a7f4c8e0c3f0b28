package executor

import (
	"errors"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// errUnrecorded says that the request was not on record when the executor shut down, or was told to kill the run.
var errUnrecorded = errors.New("the record does not hold the request yet")

// unrecorded reports whether the attempt may not be started before its request is on record.
func (j *job) unrecorded() bool {
	a, _ := j.state.Attempt(j.attempt)
	return a.Strict && !j.recorded
}

// waitRecorded waits until the request is on record, at the most until the attempt's deadline or a kill: what becomes
// of it then is up to the log, which is looked at again. It comes before the claim, so that what was never on record
// was provably never taken.
func (e *Executor) waitRecorded(j *job) error {
	if j.killed.Load() { // and yet the log does not say why
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
	case ctx.Err() == nil: // the record cannot be read
		return err
	}
	return e.lookUp(j)
}
