package main

import (
	"context"
	"log/slog"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
)

// failures returns the log of the bus: all that log takes, and without --verbose a warning of each call that failed.
func (d *development) failures(log *slog.Logger) *slog.Logger {
	if d.node.Verbose {
		return log
	}
	return slog.New(failedCalls{log.Handler()})
}

// failedCalls is a handler that warns of each call that failed, which another program may have made, and leaves out
// other events with level INFO: the user sees a success where the call was made.
type failedCalls struct{ slog.Handler }

// Enabled implements slog.Handler.
func (f failedCalls) Enabled(ctx context.Context, level slog.Level) bool {
	return level == slog.LevelInfo || f.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (f failedCalls) Handle(ctx context.Context, r slog.Record) error {
	if f.Handler.Enabled(ctx, r.Level) {
		return f.Handler.Handle(ctx, r)
	}
	failed := slog.NewRecord(r.Time, slog.LevelWarn, "a call failed: `toolbus why` takes its ref, or audit_event_id", 0)
	ok := telemetry.IsOutcome(r)
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "tool", "fn", "error.code", "ref", "attempt", "audit_event_id":
			failed.AddAttrs(a)
		case "status":
			ok = ok && a.Value.String() != string(envelope.Success)
		}
		return ok
	})
	if !ok {
		return nil
	}
	return f.Handler.Handle(ctx, failed)
}

// WithAttrs implements slog.Handler.
func (f failedCalls) WithAttrs(attrs []slog.Attr) slog.Handler {
	return failedCalls{f.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (f failedCalls) WithGroup(name string) slog.Handler {
	return failedCalls{f.Handler.WithGroup(name)}
}
