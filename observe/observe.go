package observe

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Point is a step by its name.
type Point string

// The steps of a dispatcher.
const (
	Received      Point = "received"       // a request came in; the log of its key is not known yet
	Refused       Point = "refused"        // with Stage and Error, before the caller is told
	Admit         Point = "admit"          // see [Observer.Begin]
	BeforeAdmit   Point = "before-admit"   // the attempt is about to be written
	AfterAdmit    Point = "after-admit"    // it is written
	Accepted      Point = "accepted"       // the caller is told so, now or, where it is patient, later
	BeforeJoin    Point = "before-join"    // callers are about to be bound to an open attempt
	AfterJoin     Point = "after-join"     // they are
	Replayed      Point = "replayed"       // a caller was told a stored outcome
	Told          Point = "told"           // a caller that waited was told the outcome
	BeforeTimeout Point = "before-timeout" // a deadline has passed
	BeforeDesert  Point = "before-desert"  // nobody is there to take the attempt
)

// The steps of an executor; a dispatcher that ends an attempt takes AfterDecide, too.
const (
	Taken        Point = "taken"      // a work message came
	Unrecorded   Point = "unrecorded" // the record is not known to hold the request of a strict attempt yet
	BeforeClaim  Point = "before-claim"
	AfterClaim   Point = "after-claim"
	Run          Point = "run"           // see [Observer.Begin]
	BeforeEffect Point = "before-effect" // the tool is about to be started
	AfterEffect  Point = "after-effect"  // it has ended
	BeforeDecide Point = "before-decide"
	AfterDecide  Point = "after-decide" // an outcome stands, whoever wrote it
	BeforeReply  Point = "before-reply"
	BeforeAck    Point = "before-ack"
	HandedBack   Point = "handed-back" // somebody else gets the work message, or this executor again, later
)

// Step is something that happens to a call. What is not known of it is left empty.
type Step struct {
	At      Point
	State   call.State // of the log
	Attempt int
	Tool    string            // of a request, as its subject names it
	Request *envelope.Request // nil where it could not be read
	Stage   string            // that refused the request
	Error   *envelope.Error
	Metrics envelope.Metrics // of a run
}

// Observer is told what a process does. Its functions may be nil. They are called in the midst of things, so what
// takes time in them holds up the call.
type Observer struct {
	// Step is told of every step.
	Step func(context.Context, Step)
	// Begin is told of what has a length, when it begins: an attempt that may be written (Admit), and a run (Run). It
	// returns the context for it, the traceparent of what follows from it, and what to call at its end. The end of an
	// admission is AfterAdmit, or the zero Step where none was written; that of a run has its error and metrics.
	Begin func(context.Context, Step) (_ context.Context, traceparent string, end func(Step))
}

// Tell tells of a step of attempt n.
func (o *Observer) Tell(ctx context.Context, at Point, s *call.State, n int) {
	if o.Step != nil {
		o.Step(ctx, Step{At: at, State: *s, Attempt: n})
	}
}
