package dispatcher

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// PoolEvidence knows what the executors of a pool do, and what they cannot have done. What takes a question to the
// server ends with ctx, and then nothing is known.
type PoolEvidence interface {
	// AbsentSince returns since when nobody of the pool has lived, in bus time, as of a moment ago. It is zero where
	// somebody lives or that is not known. It asks nobody.
	AbsentSince(pool string) time.Time
	// WasAbsentAt reports whether it is certain that nobody of the pool has lived at a time or since, so that whoever
	// comes has to claim what was stored then.
	WasAbsentAt(ctx context.Context, pool string, at time.Time) bool
	// Delivered returns the position in a partition up to which the work in a queue of the pool was handed out.
	Delivered(ctx context.Context, part subjects.Partition, pool, queue string) (uint64, error)
	// PullsOverflow reports whether executors of the pool pull what goes behind, as far as known. It asks nobody.
	PullsOverflow(pool string) bool
}

// evidenceTime bounds the search for evidence at a deadline, whose caller is to have its answer within 100 ms.
const evidenceTime = 40 * time.Millisecond

// end ends the attempt of a job for a cause, unless it has an outcome, and returns what stands. It takes the step at.
func (d *Dispatcher) end(
	ctx context.Context, job *openAttempt, at call.TracePoint, cause call.Cause, by call.Decider,
) (outcome.Stored, error) {
	last, err := d.CallLog.Read(ctx, job.tool, job.id)
	if err != nil {
		return outcome.Stored{}, err
	}
	d.Trace.Emit(ctx, at, &last.State, job.attempt)
	end := call.Completion{Cause: cause, By: by, Nonce: d.NewNonce(), Now: call.At(d.Now())}
	draft := d.evidence(ctx, last, job.attempt, &end)
	return outcome.Resolve(ctx, d.CallLog, last.State, job.attempt, job.admitted, end, draft, nil)
}

// evidence notes in end, which is that of attempt n of a log, when the attempt was stored, and whether nobody can have
// started it, as far as both matter and can be found out in time. It returns what else is known of the response. last
// is the log's last event.
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
	if end.Stored < a.Deadline && s.MayRunAgain() && d.PoolEvidence != nil { // the log proves it, or nothing does
		end.NotTaken = s.HasNoEffect() && d.undelivered(ctx, s, a) || d.PoolEvidence.WasAbsentAt(ctx, s.Pool, stored)
	}
	return draft
}

// undelivered reports whether a was not even handed out. It may be handed out in this moment: that is good enough
// for a call whose effect is none whatever becomes of it.
func (d *Dispatcher) undelivered(ctx context.Context, s call.State, a call.Attempt) bool {
	seq, err := d.PoolEvidence.Delivered(ctx, s.Partition, s.Pool, a.Queue())
	return err == nil && seq < a.Admitted
}
