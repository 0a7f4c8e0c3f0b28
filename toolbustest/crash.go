package toolbustest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// CrashBeforeRun makes the next run of a tool end before the tool starts, as if its executor had died. A pure or
// idempotent tool runs again. A side-effectful one does not: its lookup is asked, and finds nothing. The test fails if
// the bus has no such tool.
func (b *Bus) CrashBeforeRun(toolID string) { b.t.Helper(); b.crash(toolID, beforeRun) }

// CrashAfterRun makes the next run of a tool end after the tool has returned, as if its executor had died. The effect
// of the run has taken place, and its result is lost. A pure or idempotent tool runs again. A side-effectful one does
// not: its lookup is asked, and should find the effect. The test fails if the bus has no such tool.
func (b *Bus) CrashAfterRun(toolID string) { b.t.Helper(); b.crash(toolID, afterRun) }

func (b *Bus) crash(toolID string, at crashPoint) {
	b.t.Helper()
	if _, err := b.Tool(b.t.Context(), toolID); err != nil {
		b.t.Errorf("toolbustest: a crash %s the run of %q: %v", at, toolID, err)
		return
	}
	b.crashes.set(toolID, at)
}

// crashPoint is the moment of a run at which its executor dies.
type crashPoint string

const (
	beforeRun crashPoint = "before"
	afterRun  crashPoint = "after"
)

// crashes is the tracer provider of a bus. Executors start a span before each run, and end it after the run, before
// they store the outcome. A panic at that place leaves a call as the death of its executor does.
type crashes struct {
	noop.TracerProvider
	mu   sync.Mutex
	next map[string]crashPoint // of the next run, by tool id
}

func (c *crashes) set(toolID string, at crashPoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = map[string]crashPoint{}
	}
	c.next[toolID] = at
}

// withoutStack leaves the stack of a crash out of the log of the bus.
func withoutStack(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "stack" && strings.Contains(a.Value.String(), "toolbustest.(*crashes).reach") {
		return slog.Attr{}
	}
	return a
}

// reach panics if the next run of the tool crashes at that point.
func (c *crashes) reach(toolID string, at crashPoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next[toolID] == at {
		delete(c.next, toolID)
		panic(fmt.Sprintf("toolbustest: a crash %s the run of %s", at, toolID))
	}
}

// Tracer implements [trace.TracerProvider].
func (c *crashes) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{crashes: c} }

type tracer struct {
	noop.Tracer
	crashes *crashes
}

// Start implements [trace.Tracer]. The span is not in the context, so that runs get traceparents as without a tracer.
func (t tracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	toolID, isRun := strings.CutPrefix(name, "execute_tool ")
	if !isRun {
		return trace.ContextWithSpan(ctx, noop.Span{}), noop.Span{}
	}
	t.crashes.reach(toolID, beforeRun)
	return trace.ContextWithSpan(ctx, noop.Span{}), runSpan{crashes: t.crashes, toolID: toolID}
}

type runSpan struct {
	noop.Span
	crashes *crashes
	toolID  string
}

// End implements [trace.Span].
func (s runSpan) End(...trace.SpanEndOption) { s.crashes.reach(s.toolID, afterRun) }
