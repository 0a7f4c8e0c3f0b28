package telemetry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Meter counts the calls of one process. A process counts the outcomes that it has written, and its own refusals, so
// the sum over all processes counts each outcome once. The names of 004 §4.3 are literal.
type Meter struct {
	meter                        metric.Meter
	invocations, errors, retries metric.Int64Counter
	decided, joined, replayed    metric.Int64Counter
	refused, late, dropped       metric.Int64Counter
	takenOver                    metric.Int64Counter
	duration, queue, values      metric.Float64Histogram
	sums                         metric.Float64Counter
	running                      metric.Int64UpDownCounter
	series                       series
}

// Bounds returns the bounds of the histograms of durations, in seconds. Times are measured in milliseconds: what took
// less than one is in the first bucket.
func Bounds() []float64 {
	return []float64{
		0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900,
	}
}

// powers returns the bounds of the histograms that tools report: of what is unknown.
func powers() (bounds []float64) {
	for exponent := -3; exponent <= 9; exponent++ {
		bounds = append(bounds, math.Pow10(exponent))
	}
	return bounds
}

// NewMeter returns a Meter that uses provider, and warns log once when it has too many series. The caller must shut
// provider down.
func NewMeter(provider metric.MeterProvider, log *slog.Logger) (*Meter, error) {
	b := builder{meter: provider.Meter("github.com/seed-018f16cc/toolbus")}
	m := &Meter{
		meter:       b.meter,
		invocations: b.counter("tool.invocation.count", "Outcomes of calls"),
		errors:      b.counter("tool.error.count", "Outcomes with an error"),
		retries:     b.counter("tool.retry.count", "Outcomes of attempts that repeat a failed one, by its error"),
		decided:     b.counter("toolbus.outcome.count", "Outcomes by tenant, and by who decided them"),
		joined:      b.counter("toolbus.join.count", "Requests that wait for the outcome of another request"),
		replayed:    b.counter("toolbus.replay.count", "Requests that were answered with a stored outcome"),
		refused:     b.counter("toolbus.refusal.count", "Requests that a dispatcher refused"),
		late:        b.counter("toolbus.late.count", "Results that came after the outcome of their attempt"),
		dropped:     b.counter("toolbus.report.dropped.count", "Reports of tools that were dropped"),
		takenOver:   b.counter("toolbus.run.takeover.count", "Runs that were continued because their executor was lost"),
		duration:    b.histogram("tool.invocation.duration", "Time from the start of a run to its outcome"),
		queue:       b.histogram("toolbus.queue.duration", "Time from the admission of a call to its start"),
		series:      series{log: log},
	}
	var err, failed error
	m.sums, failed = b.meter.Float64Counter("tool.metric.count", metric.WithDescription("Counters that tools report"))
	b.err = errors.Join(b.err, failed)
	m.values, failed = b.meter.Float64Histogram("tool.metric.value",
		metric.WithDescription("Values that tools report"), metric.WithExplicitBucketBoundaries(powers()...))
	b.err = errors.Join(b.err, failed)
	m.running, err = b.meter.Int64UpDownCounter("toolbus.run.active", metric.WithDescription("Runs under way"))
	return m, errors.Join(b.err, err)
}

// builder makes instruments, and keeps their errors.
type builder struct {
	meter metric.Meter
	err   error
}

func (b *builder) counter(name, about string) metric.Int64Counter {
	c, err := b.meter.Int64Counter(name, metric.WithDescription(about))
	b.err = errors.Join(b.err, err)
	return c
}

func (b *builder) histogram(name, about string) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(name, metric.WithDescription(about), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(Bounds()...))
	b.err = errors.Join(b.err, err)
	return h
}

// Trace returns the hooks that count. They call those of inner, too.
func (m *Meter) Trace(inner call.Trace) call.Trace {
	return call.Trace{
		Begin: func(ctx context.Context, s call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
			parent, end := "", func(call.TraceEvent) {}
			if inner.Begin != nil {
				ctx, parent, end = inner.Begin(ctx, s)
			}
			if s.At != call.TraceRun {
				return ctx, parent, end
			}
			return ctx, parent, m.run(ctx, s.State.Pinned, end)
		},
		Event: func(ctx context.Context, s call.TraceEvent) {
			if inner.Event != nil {
				inner.Event(ctx, s)
			}
			m.count(ctx, s)
		},
	}
}

// run counts a run until it ends.
func (m *Meter) run(ctx context.Context, p call.Pinned, end func(call.TraceEvent)) func(call.TraceEvent) {
	of := m.series.of(label{tool: p.Tool, version: p.Version}).add
	m.running.Add(ctx, 1, of...)
	return func(last call.TraceEvent) {
		m.running.Add(ctx, -1, of...)
		end(last)
	}
}

func (m *Meter) count(ctx context.Context, s call.TraceEvent) {
	switch s.At {
	case call.TraceAfterDecide:
		if s.Won {
			m.outcome(ctx, s)
		}
	case call.TraceRefused:
		m.refusal(ctx, s)
	case call.TraceLate:
		m.late.Add(ctx, 1, m.series.of(label{tool: s.State.Tool, version: s.State.Version}).add...)
	case call.TraceReported:
		m.report(ctx, s)
	case call.TraceTakenOver:
		m.takenOver.Add(ctx, 1, m.series.of(label{tool: s.State.Tool, version: s.State.Version}).add...)
	case call.TraceAfterJoin:
		m.joined.Add(ctx, 1, m.series.of(label{tool: s.State.Tool, version: s.State.Version}).add...)
	case call.TraceReplayed:
		m.replayed.Add(ctx, 1, m.series.of(label{tool: s.State.Tool, version: s.State.Version}).add...)
	}
}

// outcome counts an outcome that this process has written.
func (m *Meter) outcome(ctx context.Context, s call.TraceEvent) {
	a, ok := s.State.Attempt(s.Attempt)
	if !ok || a.Decision == nil {
		return
	}
	p, d := s.State.Pinned, a.Decision
	of := label{tool: p.Tool, version: p.Version, action: p.Fn}
	ctx, _ = below(ctx, a.Owner.Parent) // so that the SDK adds the trace to the duration, as an exemplar
	m.duration.Record(ctx, seconds(s.Metrics.DurationMS), m.series.of(of).record...)
	of.status = d.Status
	m.invocations.Add(ctx, 1, m.series.of(of).add...)
	if d.Code != "" {
		m.errors.Add(ctx, 1, m.series.of(label{tool: p.Tool, version: p.Version, code: d.Code}).add...)
	}
	if before, ok := s.State.Attempt(s.Attempt - 1); ok && before.Decision != nil {
		m.retries.Add(ctx, 1, m.series.of(label{tool: p.Tool, version: p.Version, code: before.Decision.Code}).add...)
	}
	m.queue.Record(ctx, seconds(s.Metrics.QueueMS), m.series.of(label{pool: p.Pool}).record...)
	m.decided.Add(ctx, 1, m.series.of(label{by: d.By, status: d.Status, tenant: cmp.Or(p.Tenant, other)}).add...)
}

// refusal counts a refusal. The tool is named only if a dispatcher knows it, and then without a function: names that
// senders make up would be series.
func (m *Meter) refusal(ctx context.Context, s call.TraceEvent) {
	status := s.Error.Code.Status()
	of := label{tool: s.State.Tool, version: s.State.Version, status: status}
	if of.tool == "" {
		of.tool, of.version = other, other
	}
	m.invocations.Add(ctx, 1, m.series.of(of).add...)
	m.errors.Add(ctx, 1, m.series.of(label{tool: of.tool, version: of.version, code: s.Error.Code}).add...)
	by := label{stage: s.Stage, code: s.Error.Code, tenant: cmp.Or(s.State.Tenant, other)}
	m.refused.Add(ctx, 1, m.series.of(by).add...)
}

// report counts what a tool reports of itself.
func (m *Meter) report(ctx context.Context, s call.TraceEvent) {
	of := label{tool: s.State.Tool, version: s.State.Version}
	switch s.Report.Kind {
	case call.ReportCounter:
		of.metric = s.Report.Name
		m.sums.Add(ctx, s.Report.Number, m.series.of(of).add...)
	case call.ReportHistogram:
		of.metric = s.Report.Name
		m.values.Record(ctx, s.Report.Number, m.series.of(of).record...)
	case call.ReportDropped:
		m.dropped.Add(ctx, 1, m.series.of(of).add...)
	}
}

func seconds(ms int64) float64 { return (time.Duration(ms) * time.Millisecond).Seconds() }

// label holds the attributes of a series. Those that are empty are left out.
type label struct {
	tool, version, action string
	status                envelope.Status
	code                  envelope.Code
	by                    call.Decider
	pool, stage           string
	tenant                string // never with a tool
	metric                string // that a tool reports
}

func (l label) set() attribute.Set {
	all := make([]attribute.KeyValue, 0, 4)
	for _, a := range [...]attribute.KeyValue{
		attribute.String("tool", l.tool), attribute.String("version", l.version), attribute.String("action", l.action),
		attribute.String("status", string(l.status)), attribute.String("error_code", string(l.code)),
		attribute.String("by", string(l.by)), attribute.String("pool", l.pool), attribute.String("stage", l.stage),
		attribute.String(tenantKey, l.tenant), attribute.String("metric", l.metric),
	} {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	return attribute.NewSet(all...)
}
