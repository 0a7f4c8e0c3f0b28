package dispatcher

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/observe"
	"github.com/seed-018f16cc/toolbus/settle"
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

// end ends the attempt of a job for a cause, unless it has an outcome, and returns what stands. It takes the step at.
func (d *Dispatcher) end(
	ctx context.Context, job *due, at observe.Point, cause call.Cause, by call.Decider,
) (settle.Outcome, error) {
	last, err := d.CallLog.Read(ctx, job.tool, job.id)
	if err != nil {
		return settle.Outcome{}, err
	}
	d.Observer.Tell(ctx, at, &last.State, job.attempt)
	end := call.Ending{Cause: cause, By: by, Nonce: d.NewNonce(), Now: call.At(d.Now())}
	draft := d.evidence(ctx, last, job.attempt, &end)
	return settle.Decide(ctx, d.CallLog, last.State, job.attempt, job.admitted, end, draft, nil)
}

// evidence notes in end, which is that of attempt n of a log, when the attempt was stored, and whether nobody can have
// started it, as far as both matter and can be found out in time. It returns what else the request says of the
// response. last is the log's last event.
func (d *Dispatcher) evidence(ctx context.Context, last call.Entry, n int, end *call.Ending) settle.Draft {
	ctx, cancel := context.WithTimeout(ctx, evidenceTime)
	defer cancel()
	s := last.State
	a, request := d.admission(ctx, last, n)
	if request.Time.IsZero() || a.Claim != nil {
		return unapplied(request, a)
	}
	end.Stored = call.At(request.Time)
	if end.Stored < a.Deadline && s.Repeatable() && d.Evidence != nil { // the log proves it, or nothing does
		end.Untaken = s.Harmless() && d.undelivered(ctx, s, a) || d.Evidence.Deserted(ctx, s.Pool, request.Time)
	}
	return unapplied(request, a)
}

// admission returns the open attempt n of a log, of which last is the last event, and its request event; the zero
// Entry where the attempt is not open, or where that cannot be read.
func (d *Dispatcher) admission(ctx context.Context, last call.Entry, n int) (a call.Attempt, request call.Entry) {
	s := last.State
	a, ok := s.Attempt(n)
	switch {
	case !ok || !a.Open():
		return a, call.Entry{}
	case s.Seq == a.Admitted:
		return a, last
	}
	request, _ = settle.At(ctx, d.CallLog, s, a.Admitted) // the zero Entry where there is an error
	return a, request
}

// unapplied returns what a deadline or a cancel knows of the response to attempt a, whose request event may be there:
// what it asks for in vain. The executor knows it always.
func unapplied(request call.Entry, a call.Attempt) (none settle.Draft) {
	if request.Kind != call.Requested {
		return none
	}
	body, err := call.DecodeRequestBody(request.Body)
	if err != nil {
		return none
	}
	req := new(envelope.Request)
	if err := json.Unmarshal(body.Request, req); err != nil { // a warning less: the deadline does not wait for it
		return none
	}
	return none.Unapplied(req, a)
}

// undelivered reports whether a was not even handed out. It may be handed out in this moment: that is good enough
// for a call whose effect is none whatever becomes of it.
func (d *Dispatcher) undelivered(ctx context.Context, s call.State, a call.Attempt) bool {
	seq, err := d.Evidence.Delivered(ctx, s.Part, s.Pool, string(a.Priority))
	return err == nil && seq < a.Admitted
}
