package toolbus_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// TestEffectNoneIsNoLeave holds it on a whole bus: the tool's word that nothing was done lets nobody run it again.
func TestEffectNoneIsNoLeave(t *testing.T) {
	for class, runs := range map[toolbus.EffectClass]int32{toolbus.SideEffectful: 1, toolbus.Idempotent: 3,
		toolbus.Pure: 3} {
		t.Run(string(class), func(t *testing.T) {
			var ran atomic.Int32
			busy := &toolbus.ToolError{Name: "busy", Class: envelope.ClassUpstream, Message: "busy", Fix: "wait"}
			tools := toolbus.NewToolset()
			err := toolbus.Add(tools, toolbus.Tool{ID: "write", Class: class, Errors: []*toolbus.ToolError{busy}},
				func(context.Context, *toolbus.Run, struct{}) (string, error) {
					ran.Add(1)
					failed := busy.Because("not now")
					failed.Effect = toolbus.EffectNone
					return "", failed
				})
			if err != nil {
				t.Fatal(err)
			}
			b := toolbustest.Start(t, tools)
			r, err := toolbus.Outcome(b.Call(t.Context(), toolbus.Call{Tool: "write",
				Retry: &envelope.RetryPolicy{MaxAttempts: 3, BaseMS: 1, CapMS: 2}}))
			if err != nil || r.Status != envelope.RetryableError || r.Error.Details.Effect != envelope.EffectNone {
				t.Fatalf("%+v, %v", r, err)
			}
			if n := ran.Load(); n != runs || r.Metrics.Attempts != int(runs) {
				t.Errorf("ran %d times in %d attempts, want %d", n, r.Metrics.Attempts, runs)
			}
			if r.Provenance.NotStarted {
				t.Error("it is said not to have been started")
			}
		})
	}
}
