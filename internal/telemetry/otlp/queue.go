package otlp

import (
	"context"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// maxSpans is the largest number of spans that wait until the collector takes them.
const maxSpans = 2048

// queue is a processor that sends spans in batches. That of the SDK tells nobody how many it drops, so queue bounds
// the number of spans in it, and counts those that it loses.
type queue struct {
	sdktrace.SpanProcessor
	waiting atomic.Int64
	lost    *atomic.Int64
}

func newQueue(to sdktrace.SpanExporter, lost *atomic.Int64) *queue {
	q := &queue{lost: lost}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(sender{to, q}, sdktrace.WithMaxQueueSize(maxSpans))
	return q
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > maxSpans {
		q.waiting.Add(-1)
		q.lost.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// Shutdown implements sdktrace.SpanProcessor.
func (q *queue) Shutdown(ctx context.Context) error {
	err := q.SpanProcessor.Shutdown(ctx)
	q.lost.Add(q.waiting.Swap(0))
	return err
}

// sender is an exporter that tells a queue what has left it.
type sender struct {
	sdktrace.SpanExporter
	from *queue
}

// ExportSpans implements sdktrace.SpanExporter.
func (s sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	n := int64(len(spans))
	if err != nil {
		s.from.lost.Add(n)
	}
	s.from.waiting.Add(-n)
	return err
}
