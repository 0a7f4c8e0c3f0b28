package dispatcher

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Evidence knows what the executors of a pool cannot have done. What takes a question to the server ends with ctx, and
// then nothing is known.
type Evidence interface {
	// Absent returns since when nobody of the pool has lived, in bus time, as of a moment ago. It is zero where
	// somebody lives or that is not known. It asks nobody.
	Absent(pool string) time.Time
	// Deserted reports whether it is certain that nobody of the pool has lived at a time or since, so that whoever
	// comes has to claim what was stored then.
	Deserted(ctx context.Context, pool string, at time.Time) bool
	// Delivered returns the position in a partition up to which the pool's work of a priority was handed out.
	Delivered(ctx context.Context, part subjects.Part, pool, prio string) (uint64, error)
}

// evidenceTime bounds the search for evidence at a deadline, whose caller is to have its answer within 100 ms.
const evidenceTime = 40 * time.Millisecond

// evidence returns when the open attempt n of a log was stored, and whether nobody can have started it, as far as
// both matter and can be found out in time. last is the log's last event.
func (d *Dispatcher) evidence(ctx context.Context, last call.Entry, n int) (stored call.UnixMS, untaken bool) {
	s := last.State
	a, ok := s.Attempt(n)
	if !ok || !a.Open() || a.Claim != nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceTime)
	defer cancel()
	at := d.storedAt(ctx, last, a)
	if at.IsZero() {
		return 0, false
	}
	stored = call.At(at)
	if stored >= a.Deadline || !s.Repeatable() || d.Evidence == nil { // the log proves it, or nothing does
		return stored, false
	}
	return stored, s.Harmless() && d.undelivered(ctx, s, a) || d.Evidence.Deserted(ctx, s.Pool, at)
}

// storedAt returns when the server stored the request event of a; zero where that cannot be read.
func (d *Dispatcher) storedAt(ctx context.Context, last call.Entry, a call.Attempt) time.Time {
	if last.State.Seq != a.Admitted {
		var err error
		if last, err = d.CallLog.Get(ctx, last.State.Part, a.Admitted); err != nil {
			return time.Time{}
		}
	}
	return last.Time
}

// undelivered reports whether a was not even handed out. It may be handed out in this moment: that is good enough
// for a call whose effect is none whatever becomes of it.
func (d *Dispatcher) undelivered(ctx context.Context, s call.State, a call.Attempt) bool {
	seq, err := d.Evidence.Delivered(ctx, s.Part, s.Pool, string(a.Priority))
	return err == nil && seq < a.Admitted
}
