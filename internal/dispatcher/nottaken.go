package dispatcher

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
)

// PoolEvidence reports which executors of a pool are live, and what they cannot have done. Methods with a ctx may ask
// the server; if ctx ends first, nothing is proved.
type PoolEvidence interface {
	// AbsentSince returns since when the pool has had no live executor, in bus time, as last observed. It is zero if the
	// pool has one, or if that is not known. It sends no messages.
	AbsentSince(pool string) time.Time
	// WasAbsentAt reports whether it is certain that the pool has had no live executor at the given time and since. Then
	// an executor that starts later must claim attempts that were stored at that time.
	WasAbsentAt(ctx context.Context, pool string, at time.Time) bool
	// Delivered reports whether the server has delivered the message at a position, in a queue of the pool.
	Delivered(ctx context.Context, at call.Position, pool, queue string) (bool, error)
	// PullsOverflow reports whether executors of the pool are known to pull from the overflow queues. It sends no
	// messages.
	PullsOverflow(pool string) bool
}

// evidenceTime limits the search for evidence at a deadline, because the caller must have its answer within 100 ms
// after it.
const evidenceTime = 40 * time.Millisecond

// ending is the reason for which a dispatcher ends an attempt. With call.BuildAbsent, here holds the digests of the
// builds that live executors have.
type ending struct {
	cause call.Cause
	by    call.Decider
	here  []string
}

// end ends the attempt of a job, unless it has an outcome, and returns the stored outcome. It emits the trace point at.
func (d *Dispatcher) end(
	ctx context.Context, job *openAttempt, at call.TracePoint, why ending,
) (outcome.Stored, error) {
	last, err := d.CallLog.Read(ctx, job.tool, job.id)
	if err != nil {
		return outcome.Stored{}, err
	}
	d.Trace.Emit(ctx, at, &last.State, job.attempt)
	end := call.Completion{Cause: why.cause, By: why.by, Nonce: d.NewNonce(), Now: call.At(d.Now())}
	draft := d.evidence(ctx, last, job.attempt, &end)
	if why.cause == call.BuildAbsent {
		draft.Error = withoutBuild(last.State, why.here)
	}
	return outcome.Resolve(ctx, d.CallLog, last.State, job.attempt, job.admitted, end, draft, nil)
}

// evidence sets in end, the completion of attempt n, when the attempt was stored, and whether it is certain that no
// executor started it, if both can be found out in time. It returns the draft of the response. last is the last event
// of the log.
func (d *Dispatcher) evidence(ctx context.Context, last call.Entry, n int, end *call.Completion) outcome.Draft {
	ctx, cancel := context.WithTimeout(ctx, evidenceTime)
	defer cancel()
	s := last.State
	a, ok := s.Attempt(n)
	draft := outcome.Draft{}.WithIgnoredWarnings(a)
	if !ok || !a.Open() || a.Claim != nil {
		return draft
	}
	stored := last.Time
	if s.Seq != a.Admitted {
		request, err := outcome.At(ctx, d.CallLog, s, a.Admitted)
		if err != nil || request.Time.IsZero() {
			return draft
		}
		stored = request.Time
	}
	end.Stored = call.At(stored)
	if end.Stored < a.Deadline && s.MayRunAgain() && d.PoolEvidence != nil { // else the log shows it
		end.NotTaken = s.HasNoEffect() && d.undelivered(ctx, s, a) || d.PoolEvidence.WasAbsentAt(ctx, s.Pool, stored)
	}
	return draft
}

// undelivered reports whether the server has not delivered the attempt yet. It may do so at this moment; that does not
// matter for a call that has no effect in any case.
func (d *Dispatcher) undelivered(ctx context.Context, s call.State, a call.Attempt) bool {
	delivered, err := d.PoolEvidence.Delivered(ctx, s.At(a.Admitted), s.Pool, a.Queue())
	return err == nil && !delivered
}
