package dispatcher

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// tracedAttempts is the number of the newest attempts whose joins and former claims a trace has: each event of them is
// a request to the server. It has of older attempts what the state says.
const tracedAttempts = 10

// Traced returns the events of a call, for those who may ask why, and the state of its log. It leaves out attempts that
// the token of the sender does not cover, and other attempts than that of q.CallID, if that is set.
func (d *Dispatcher) Traced(
	ctx context.Context, from call.Sender, q envelope.CallRef,
) (none envelope.TraceResponse, _ call.State, _ *envelope.Error) {
	last, only, refusal := d.attempt(ctx, subjects.OpTrace, from, q)
	if refusal != nil {
		return none, call.State{}, refusal
	}
	s, stored := last.State, []call.Entry(nil)
	if d.Heads != nil {
		var err error
		if stored, err = d.Heads.Events(ctx, s.Tool, s.ID, tracedFrom(s, q, only)); err != nil {
			return none, s, logUnread(err)
		}
	}
	r := envelope.TraceResponse{
		Ref: s.Ref(), Tool: s.Tool, Fn: s.Fn, Version: s.Version, Tenant: s.Tenant, Pool: s.Pool, Now: d.Now().UTC(),
	}
	all := auth.SeesTenant(subjects.OpTrace, auth.FromContext(ctx))
	for _, a := range s.Attempts {
		if !covered(ctx, a) || q.CallID != "" && a.N != only.N {
			continue
		}
		events := d.traceAttempt(ctx, s, a, stored)
		if !all && subjects.Token(a.Owner.Actor) != from.Actor {
			events[0].Actor, events[0].TraceID = "", ""
		}
		r.Events = append(r.Events, events...)
	}
	return r, s, nil
}

// tracedFrom returns the sequence of the request from which on the events are read for the answer to q.
func tracedFrom(s call.State, q envelope.CallRef, only call.Attempt) uint64 {
	if q.CallID != "" {
		return only.Admitted
	}
	return s.Attempts[max(0, len(s.Attempts)-tracedAttempts)].Admitted
}

// traceAttempt returns the events of attempt a: the request first, the outcome last, and the others by their times.
func (d *Dispatcher) traceAttempt(
	ctx context.Context, s call.State, a call.Attempt, stored []call.Entry,
) []envelope.TraceEvent {
	events := []envelope.TraceEvent{{
		Kind: envelope.TraceRequested, Attempt: a.N, At: a.At.Time().UTC(), By: call.Instance(a.Nonce),
		Actor: a.Owner.Actor, TraceID: a.Owner.Trace, Priority: a.Priority, Deadline: a.Due().UTC(),
	}}
	events = append(events, traceJoins(a, stored)...)
	events = append(events, d.traceClaims(s, a, stored)...)
	outcome, run := d.traceEnd(ctx, s, a)
	if run != nil {
		events = append(events, *run)
	}
	if outcome != nil {
		events = append(events, traceLookup(s, a, outcome)...)
	}
	slices.SortStableFunc(events[1:], func(x, y envelope.TraceEvent) int {
		return cmp.Compare(x.At.UnixMilli(), y.At.UnixMilli()) // a claim is in ms, and before its run
	})
	if outcome != nil {
		events = append(events, *outcome)
	}
	return events
}

// traceJoins returns the stored joins of attempt a, each with the number of requests since the one before.
func traceJoins(a call.Attempt, stored []call.Entry) (events []envelope.TraceEvent) {
	known := 0
	for _, e := range stored {
		if now, _ := e.State.Attempt(a.N); e.Kind == call.Joined && e.Attempt == a.N && len(now.Joined) > known {
			events = append(events, envelope.TraceEvent{
				Kind: envelope.TraceJoined, Attempt: a.N, At: e.Time.UTC(), Joined: len(now.Joined) - known,
			})
			known = len(now.Joined)
		}
	}
	return events
}

// traceClaims returns the stored claims of attempt a, and the runs of all but the last one: an executor claims an
// attempt that has a claim only if that executor is gone. The last claim is in the state, too, and may have expired.
func (d *Dispatcher) traceClaims(s call.State, a call.Attempt, stored []call.Entry) (events []envelope.TraceEvent) {
	claims := []*call.Claim{}
	for _, e := range stored {
		if now, _ := e.State.Attempt(a.N); e.Kind == call.Claimed && e.Attempt == a.N && now.Claim != nil {
			claims = append(claims, now.Claim)
		}
	}
	if a.Claim != nil && !slices.ContainsFunc(claims, func(c *call.Claim) bool { return c.Fence == a.Claim.Fence }) {
		claims = append(claims, a.Claim)
	}
	for i, c := range claims {
		at := cmp.Or(c.At, a.At)
		events = append(events, envelope.TraceEvent{
			Kind: envelope.TraceClaimed, Attempt: a.N, At: at.Time().UTC(), By: c.By, Claim: c.Count,
			Lost: call.LateFirst(s, a, c, d.Lease),
		})
		if i < len(claims)-1 {
			events = append(events, envelope.TraceEvent{
				Kind: envelope.TraceRun, Attempt: a.N, At: at.Time().UTC(), By: c.By, Fence: c.Fence, Lost: true,
				DurationMS: int64(max(0, cmp.Or(claims[i+1].At, a.At)-at)),
			})
		}
	}
	return events
}

// traceLookup returns the event of the lookup that decided attempt a, if one did.
func traceLookup(s call.State, a call.Attempt, outcome *envelope.TraceEvent) []envelope.TraceEvent {
	e := envelope.TraceEvent{Kind: envelope.TraceAsked, Attempt: a.N, At: outcome.At, By: s.Pool + "/" + outcome.By}
	switch answer := a.Decision.Answer; {
	case call.FoundEffect(s, a):
		e.Kind = envelope.TraceLookup
	case answer == call.LookupAbsent || answer == call.LookupFailed:
		e.Answer = string(answer)
	default:
		return nil
	}
	return []envelope.TraceEvent{e}
}

// traceEnd returns the outcome of attempt a, or nil while it is open, and its last run, or nil if none is known.
func (d *Dispatcher) traceEnd(ctx context.Context, s call.State, a call.Attempt) (end, run *envelope.TraceEvent) {
	run = &envelope.TraceEvent{Kind: envelope.TraceRun, Attempt: a.N, Fence: a.Fence()}
	if a.Open() {
		return nil, d.traceOpen(ctx, s, a, run)
	}
	by := a.Decision
	end = &envelope.TraceEvent{
		Kind: envelope.TraceOutcome, Attempt: a.N, At: by.At.Time().UTC(), By: call.Instance(by.Nonce), Status: by.Status,
		Code: by.Code, Effect: by.Effect, DecidedBy: string(by.By),
	}
	var metrics envelope.Metrics
	if o, err := d.Answers.Load(ctx, s, a.N); err == nil {
		metrics = o.Response.Metrics
		if c := o.Response.Provenance.Chunks; c != nil {
			end.ChunksTotal = c.Count
		}
	}
	queued := a.At.Time().Add(time.Duration(metrics.QueueMS) * time.Millisecond)
	asked := by.Fence > 0 && call.ByAnother(s, a) // the fence is that of the lost run, whose lookup the decider asked
	switch {
	case by.NotTaken:
		return end, nil
	case by.By == call.ByExecutor && by.Fence > 0 && !asked: // the executor has run it
		run.At, run.DurationMS, run.By, run.Fence = queued, metrics.DurationMS, s.Pool+"/"+end.By, by.Fence
		if c := a.Claim; c != nil && c.Fence == by.Fence && c.At.Time().After(queued) { // the clocks differ by some ms
			run.At = c.At.Time()
		}
	case a.Claim != nil && a.Claim.At > 0: // it ran until then at the most, and nothing is known of it after its deadline
		run.At, run.DurationMS, run.By = a.Claim.At.Time(), int64(max(0, min(by.At, a.Deadline)-a.Claim.At)), a.Claim.By
		run.Lost = by.Answer != "" || asked || call.LateBy(a) > 0
	default:
		return end, nil
	}
	run.At = run.At.UTC()
	return end, run
}

// traceOpen sets where an open attempt runs and since when. It returns nil if that is not known.
func (d *Dispatcher) traceOpen(
	ctx context.Context, s call.State, a call.Attempt, run *envelope.TraceEvent,
) *envelope.TraceEvent {
	if run.Running = true; a.Claim != nil {
		run.By, run.At = a.Claim.By, cmp.Or(a.Claim.At, a.At).Time().UTC()
		return run
	}
	by, since, ok := d.Control.Locate(ctx, s.Pool, s.ID, a.N)
	if !ok {
		return nil
	}
	run.By, run.At = by, since.UTC()
	return run
}
