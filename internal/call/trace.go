package call

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// TracePoint is a step by its name.
type TracePoint string

// The steps of a dispatcher.
const (
	TraceReceived         TracePoint = "received"       // a request came in; the log of its key is not known yet
	TraceRefused          TracePoint = "refused"        // with Stage and Error, before the caller is told
	TraceAdmit            TracePoint = "admit"          // see [Trace.Begin]
	TraceBeforeAdmit      TracePoint = "before-admit"   // the attempt is about to be written
	TraceAfterAdmit       TracePoint = "after-admit"    // it is written
	TraceAccepted         TracePoint = "accepted"       // the caller is told so, now or, where it is patient, later
	TraceBeforeJoin       TracePoint = "before-join"    // callers are about to be bound to an open attempt
	TraceAfterJoin        TracePoint = "after-join"     // they are
	TraceReplayed         TracePoint = "replayed"       // a caller was told a stored outcome
	TraceDelivered        TracePoint = "told"           // a caller that waited was told the outcome
	TraceBeforeTimeout    TracePoint = "before-timeout" // a deadline has passed
	TraceBeforePoolAbsent TracePoint = "before-desert"  // nobody is there to take the attempt
)

// The steps of an executor; a dispatcher that ends an attempt takes AfterDecide, too.
const (
	TraceTaken        TracePoint = "taken"      // a work message came
	TraceUnrecorded   TracePoint = "unrecorded" // the record is not known to hold the request of a strict attempt yet
	TraceBeforeClaim  TracePoint = "before-claim"
	TraceAfterClaim   TracePoint = "after-claim"
	TraceRun          TracePoint = "run"           // see [Trace.Begin]
	TraceBeforeEffect TracePoint = "before-effect" // the tool is about to be started
	TraceAfterEffect  TracePoint = "after-effect"  // it has ended
	TraceBeforeDecide TracePoint = "before-decide"
	TraceAfterDecide  TracePoint = "after-decide" // an outcome stands, whoever wrote it
	TraceBeforeReply  TracePoint = "before-reply"
	TraceBeforeAck    TracePoint = "before-ack"
	TraceNak          TracePoint = "handed-back" // somebody else gets the work message, or this executor again, later
)

// TraceEvent is something that happens to a call. What is not known of it is left empty.
type TraceEvent struct {
	At      TracePoint
	State   State // of the log
	Attempt int
	Tool    string            // of a request, as its subject names it
	Request *envelope.Request // nil where it could not be read
	Stage   string            // that refused the request
	Error   *envelope.Error
	Metrics envelope.Metrics // of a run
}

// Trace is told what a process does. Its functions may be nil. They are called in the midst of things, so what
// takes time in them holds up the call.
type Trace struct {
	// Event is told of every step.
	Event func(context.Context, TraceEvent)
	// Begin is told of what has a length, when it begins: an attempt that may be written (Admit), and a run (Run). It
	// returns the context for it, the traceparent of what follows from it, and what to call at its end. The end of an
	// admission is AfterAdmit, or the zero Step where none was written; that of a run has its error and metrics.
	Begin func(context.Context, TraceEvent) (_ context.Context, traceparent string, end func(TraceEvent))
}

// Emit tells of a step of attempt n.
func (o *Trace) Emit(ctx context.Context, at TracePoint, s *State, n int) {
	if o.Event != nil {
		o.Event(ctx, TraceEvent{At: at, State: *s, Attempt: n})
	}
}
