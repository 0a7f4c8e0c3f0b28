package telemetry_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
)

// An outcome that another process has written is not logged, and of refusals that the audit record counts only the
// first. Inner hooks are called all the same.
func TestLogLeavesOut(t *testing.T) {
	var out strings.Builder
	inner := 0
	trace := telemetry.NewLog(slog.New(slog.NewTextHandler(&out, nil)), 0).Trace(
		call.Trace{Event: func(context.Context, call.TraceEvent) { inner++ }})
	refused := call.TraceEvent{At: call.TraceRefused, Tool: "one", Record: "gate.d1.7",
		Error: envelope.NewError(envelope.CodeSchema, "")}
	trace.Event(t.Context(), decided("one", "", false))
	for _, counted := range []uint64{0, 0, 1, 2, 3} {
		refused.Counted = counted
		trace.Event(t.Context(), refused)
	}
	if n := strings.Count(out.String(), "error.code=I-REQ-SCHEMA"); n != 3 || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%d refusals: %s", n, &out)
	}
	if n := strings.Count(out.String(), "audit_event_id=gate.d1.7"); n != 3 {
		t.Errorf("%d refusals name their record: %s", n, &out)
	}
	if inner != 6 {
		t.Errorf("the inner hook was called %d times", inner)
	}
}
