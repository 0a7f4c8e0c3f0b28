package call

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// TracePoint is the name of a step in the life of a call.
type TracePoint string

// Trace points of dispatchers.
const (
	TraceReceived         TracePoint = "received"        // a request was received
	TraceRefused          TracePoint = "refused"         // before a refusal is sent; with Stage and Error
	TraceAdmit            TracePoint = "admit"           // see [Trace.Begin]
	TraceBeforeAdmit      TracePoint = "before-admit"    // before the request event is written
	TraceAfterAdmit       TracePoint = "after-admit"     // the request event is written
	TraceAccepted         TracePoint = "accepted"        // before the acceptance is sent or delayed
	TraceBeforeJoin       TracePoint = "before-join"     // before a join event is written
	TraceAfterJoin        TracePoint = "after-join"      // the log has the join of a Request
	TraceReplayed         TracePoint = "replayed"        // a Request was sent a stored outcome
	TraceDelivered        TracePoint = "told"            // the outcome was sent to a waiting caller
	TraceBeforeTimeout    TracePoint = "before-timeout"  // a deadline has passed
	TraceBeforePoolAbsent TracePoint = "before-desert"   // the pool of the attempt is absent
	TraceBeforeNoBuild    TracePoint = "before-no-build" // no live executor has the admitted build
)

// Trace points of executors. A dispatcher that ends an attempt emits TraceAfterDecide, too.
const (
	TraceTaken        TracePoint = "taken"      // a work message was received
	TraceUnrecorded   TracePoint = "unrecorded" // before the wait for the audit record of the request
	TraceBeforeClaim  TracePoint = "before-claim"
	TraceAfterClaim   TracePoint = "after-claim"
	TraceTakenOver    TracePoint = "taken-over"    // a claimed run is continued: its executor is gone
	TraceRun          TracePoint = "run"           // see [Trace.Begin]
	TraceBeforeEffect TracePoint = "before-effect" // before the tool is started
	TraceReported     TracePoint = "reported"      // the running tool has reported something of itself; with Report
	TraceAfterEffect  TracePoint = "after-effect"  // the tool has ended
	TraceBeforeDecide TracePoint = "before-decide"
	TraceAfterDecide  TracePoint = "after-decide" // the log holds an outcome; with Won and, if it can be read, Metrics
	TraceLate         TracePoint = "late"         // another outcome came first: the record has the result as a late one
	TraceBeforeReply  TracePoint = "before-reply"
	TraceBeforeAck    TracePoint = "before-ack"
	TraceNak          TracePoint = "handed-back" // the work message is returned to the server
)

// TraceEvent describes a step. Fields that are not known are empty.
type TraceEvent struct {
	At      TracePoint
	State   State // of the log
	Attempt int
	Tool    string            // tool in the subject of a request
	Effect  string            // canonical name of the tool's effect, such as IdempotentWrite
	Origin  string            // origin of the tool: local or mcp
	Request *envelope.Request // nil if it could not be decoded
	Stage   string            // stage that refused the request, which Step of the gateway contract it belongs to
	Step    int
	Record  string // id of the audit record of a refusal; "" if it was not recorded
	Counted uint64 // number of the refusal among those that the audit record counts together; 0 if it has its own record
	Error   *envelope.Error
	Metrics envelope.Metrics // of a run, or of an outcome
	Won     bool             // this process wrote the outcome
	Report  *Report          // of a tool; only with TraceReported
}

// ReportKind says what a tool has reported of itself.
type ReportKind string

// Values of [ReportKind].
const (
	ReportCounter   ReportKind = "counter"   // Number is added to a metric
	ReportHistogram ReportKind = "histogram" // Number is a value of a metric
	ReportAttribute ReportKind = "attribute" // Text, or else Number, is the value of an attribute of the span
	ReportEvent     ReportKind = "event"
	ReportDropped   ReportKind = "dropped" // with the reason as Text
)

// Report describes what a tool has reported of itself, within the limits of the executor.
type Report struct {
	Kind   ReportKind
	Name   string
	Number float64
	Text   string // instead of a Number
}

// Trace holds hooks. They may be nil, must be safe for concurrent use, and run in the goroutine of the call, which they
// delay.
type Trace struct {
	// Event is called at every step.
	Event func(context.Context, TraceEvent)
	// Begin is called at the start of an admission (TraceAdmit) and of a run (TraceRun). It returns the context for it,
	// the traceparent for its child spans, and a function to call at its end: after an admission with TraceAfterAdmit, or
	// the zero TraceEvent if no attempt was written, and after a run with its error and metrics.
	Begin func(context.Context, TraceEvent) (_ context.Context, traceparent string, end func(TraceEvent))
}

// Emit calls Event, if it is not nil, for a step of attempt n.
func (o *Trace) Emit(ctx context.Context, at TracePoint, s *State, n int) {
	if o.Event != nil {
		o.Event(ctx, TraceEvent{At: at, State: *s, Attempt: n})
	}
}

// Share calls Event, if it is not nil, for a request that shares attempt n.
func (o *Trace) Share(ctx context.Context, at TracePoint, s *State, n int, req *envelope.Request) {
	if o.Event != nil {
		o.Event(ctx, TraceEvent{At: at, State: *s, Attempt: n, Request: req})
	}
}
