package telemetry

import (
	"context"
	"hash/crc32"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Log logs the outcomes that one process has written, and its own refusals, with level INFO. So each outcome is in the
// log of one process. The fields have the names of 000 §9 and of 004 §4.2, and none is a part of an input.
type Log struct {
	to     *slog.Logger
	sample float64

	mu   sync.Mutex
	told map[told]bool // dropped reports that were logged
}

// told is a dropped report of a tool.
type told struct{ tool, version, name, reason string }

// maxTold is the number of dropped reports that a process logs.
const maxTold = 1000

// The first field of each outcome.
const (
	eventKey   = "event"
	invocation = "tool_invocation"
)

// IsOutcome reports whether a [Log] wrote r.
func IsOutcome(r slog.Record) (is bool) {
	r.Attrs(func(first slog.Attr) bool {
		is = first.Key == eventKey && first.Value.Kind() == slog.KindString && first.Value.String() == invocation
		return false
	})
	return is
}

// NewLog returns a Log that writes to log. sample is the share of successful calls that it logs, chosen by their
// references, so that all processes choose the same; 0 means all of them. It logs every error.
func NewLog(log *slog.Logger, sample float64) *Log {
	return &Log{to: log, sample: sample, told: map[told]bool{}}
}

// Trace returns the hooks that log. They call those of inner, too.
func (l *Log) Trace(inner call.Trace) call.Trace {
	return call.Trace{Begin: inner.Begin, Event: func(ctx context.Context, s call.TraceEvent) {
		if inner.Event != nil {
			inner.Event(ctx, s)
		}
		switch {
		case s.At == call.TraceAfterDecide && s.Won && l.to.Enabled(ctx, slog.LevelInfo):
			l.outcome(ctx, s)
		case s.At == call.TraceRefused && s.Counted <= 1 && l.to.Enabled(ctx, slog.LevelInfo):
			l.refusal(ctx, s)
		case s.At == call.TraceReported:
			l.report(ctx, s)
		}
	}}
}

// outcome logs an outcome that this process has written.
func (l *Log) outcome(ctx context.Context, s call.TraceEvent) {
	a, ok := s.State.Attempt(s.Attempt)
	if !ok || a.Decision == nil {
		return
	}
	p, d, ref := s.State.Pinned, a.Decision, s.State.Ref()
	if d.Status == envelope.Success && !l.chosen(ref) {
		return
	}
	e := event{
		tool: p.Tool, fn: p.Fn, callID: a.Owner.CallID, trace: a.Owner.Trace, status: d.Status, code: d.Code,
		durationMS: s.Metrics.DurationMS,
	}
	l.write(ctx, "ended", e, slog.String("version", p.Version), slog.String("ref", ref), slog.Int("attempt", s.Attempt),
		slog.String("by", string(d.By)), slog.Int64("queue_ms", s.Metrics.QueueMS))
}

// refusal logs a refusal. A refusal that the audit record only counts is not logged, because a sender could fill the
// disk with it.
func (l *Log) refusal(ctx context.Context, s call.TraceEvent) {
	e := event{tool: s.Tool, status: s.Error.Code.Status(), code: s.Error.Code}
	if req := s.Request; req != nil {
		e.fn, e.callID, e.trace = req.Fn, req.CallID, req.Context.TraceID
	}
	l.write(ctx, "refused", e, slog.String("version", s.State.Version), slog.String("stage", s.Stage),
		slog.Int("step", s.Step), slog.String("audit_event_id", s.Record))
}

// report logs an event of a tool, and each dropped report of one version of it once.
func (l *Log) report(ctx context.Context, s call.TraceEvent) {
	tool, version, name := s.State.Tool, s.State.Version, s.Report.Name
	switch a, _ := s.State.Attempt(s.Attempt); s.Report.Kind {
	case call.ReportEvent:
		l.to.InfoContext(ctx, "a tool reports an event", eventKey, "tool_event", "name", name, "tool_id", tool,
			"version", version, "call_id", a.Owner.CallID, "traceId", a.Owner.Trace, "ref", s.State.Ref(),
			"attempt", s.Attempt)
	case call.ReportDropped:
		if l.first(told{tool, version, name, s.Report.Text}) {
			l.to.WarnContext(ctx, "what a tool reports is dropped", "tool_id", tool, "version", version, "name", name,
				"reason", s.Report.Text)
		}
	}
}

// first reports whether a dropped report is to be logged.
func (l *Log) first(one told) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[one] || len(l.told) >= maxTold {
		return false
	}
	l.told[one] = true
	return true
}

// chosen reports whether the share that is logged contains a call.
func (l *Log) chosen(ref string) bool {
	return l.sample == 0 || l.sample == 1 || float64(crc32.ChecksumIEEE([]byte(ref))) <= l.sample*math.MaxUint32
}

// event holds the fields that an outcome and a refusal have in common.
type event struct {
	tool, fn, callID, trace string
	status                  envelope.Status
	code                    envelope.Code // "" of a success
	durationMS              int64
}

// maxFields is the number of fields of an event, so that they fit into one slice.
const maxFields = 17

// write logs an event. 000 §9 and 004 §4.2 name the tool, the function, the call and the duration differently, so these
// fields are there twice. It makes the record itself, because slog.Logger would look for the line of code.
func (l *Log) write(ctx context.Context, says string, e event, more ...slog.Attr) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, says, 0)
	all := append(make([]slog.Attr, 0, maxFields), slog.String(eventKey, invocation),
		slog.String("tool_id", e.tool), slog.String("fn", e.fn), slog.String("call_id", e.callID),
		slog.String("status", string(e.status)), slog.Int64("duration_ms", e.durationMS),
		slog.String("requestId", e.callID), slog.String("traceId", e.trace), slog.String("tool", e.tool),
		slog.String("action", e.fn), slog.Int64("durationMs", e.durationMS))
	if e.code != "" {
		all = append(all, slog.String("error.code", string(e.code)))
	}
	r.AddAttrs(append(all, more...)...)
	_ = l.to.Handler().Handle(ctx, r) // as slog.Logger does
}
