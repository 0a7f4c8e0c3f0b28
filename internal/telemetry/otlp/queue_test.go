package otlp

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// collector answers a batch when it has an answer.
type collector struct {
	answer chan error
	sent   atomic.Int64
}

// ExportSpans implements sdktrace.SpanExporter.
func (c *collector) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := <-c.answer
	if err == nil {
		c.sent.Add(int64(len(spans)))
	}
	return err
}

// Shutdown implements sdktrace.SpanExporter.
func (*collector) Shutdown(context.Context) error { return nil }

// A collector that does not answer delays no span, and not more of them wait than the limit. Those that it did not take
// are counted, at the end also those that wait.
func TestQueueIsBounded(t *testing.T) {
	const spans = 10_000
	refused := errors.New("refused")
	for _, c := range []struct {
		name         string
		answers      []error // of batches of 512
		failed, sent int64
	}{
		{"silent", nil, maxSpans, 0},
		{"slow", []error{nil, nil}, maxSpans - 1024, 1024},
		{"refuses", []error{refused, refused, refused, refused}, maxSpans, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lost atomic.Int64
				to := &collector{answer: make(chan error)}
				q := newQueue(to, &lost)
				p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(q))
				for range spans {
					_, span := p.Tracer("").Start(t.Context(), "x")
					span.End()
				}
				if n, full := q.waiting.Load(), lost.Load(); n != maxSpans || full != spans-maxSpans {
					t.Errorf("%d spans wait, and %d are lost", n, full)
				}
				for _, err := range c.answers {
					to.answer <- err
				}
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = p.Shutdown(ctx) // may say that time is up
				if failed := lost.Load() - (spans - maxSpans); failed != c.failed || to.sent.Load() != c.sent {
					t.Errorf("%d spans are lost at the end, and %d are sent", failed, to.sent.Load())
				}
				close(to.answer)
			})
		})
	}
}
