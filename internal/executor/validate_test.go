package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
)

// refusing makes the adapter refuse each call with a declared error, whatever that says of its effect.
func (w *world) refusing() {
	w.manifest.Errors = map[string]tool.ErrorSpec{"refused": {Name: "refused", Class: envelope.ClassPrecondition}}
	w.refuse = func(inv tool.Invocation) error {
		if string(inv.Input) != `{"n":1}` || inv.CallID != callA {
			w.t.Errorf("asked about %+v", inv)
		}
		return &tool.Error{Code: "refused", Message: "not this one", Effect: envelope.EffectApplied}
	}
}

// A call that its adapter refuses does not run, and has no effect on its first delivery.
func TestDenied(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.refusing()
		m := w.admit(callA, time.Minute)
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		d, told := w.decided(1), w.replies[0].Error
		if len(w.runs) != 0 || d.Code != "P-PRECOND-REFUSED" || d.Effect != envelope.EffectNone {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
		if told.Message != "not this one" || told.Details.Effect != envelope.EffectNone ||
			told.Details.ToolCode != "refused" {
			t.Errorf("told %+v", told)
		}
	})
}

// On a later delivery, an earlier run may have had the effect. It is none only for pure calls.
func TestDeniedLater(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.refusing()
		m := w.claimed("default/dead")
		w.gone["default/dead"] = true
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		want := envelope.EffectUnknown
		if w.manifest.Class == call.Pure {
			want = envelope.EffectNone
		}
		d := w.decided(1)
		if len(w.runs) != 0 || d.Effect != want || w.replies[0].Error.Details.Effect != want {
			t.Errorf("%d runs, decision %+v, told %+v", len(w.runs), d, w.replies[0].Error)
		}
		if w.manifest.Class != call.SideEffectful && d.Code != "P-PRECOND-REFUSED" {
			t.Errorf("decision %+v", d)
		}
	})
}

// A check that fails is a fault of the tool, without an effect. A check that does not return delays the call until its
// deadline, and the tool does not run.
func TestFaultyCheck(t *testing.T) {
	release := make(chan struct{})
	for want, check := range map[envelope.Code]native.ValidateFunc{
		envelope.CodeToolFault: func(context.Context, tool.Invocation) error { return errors.New("broken") },
		envelope.CodeTimeout:   func(context.Context, tool.Invocation) error { <-release; return nil },
	} {
		each(t, func(t *testing.T, w *world) {
			release = make(chan struct{})
			run := func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				t.Error("the tool runs")
				return tool.Result{Output: []byte(`{}`)}, nil
			}
			w.manifest.Endpoint = native.Endpoint{Native: "echo"}
			w.native = native.New(map[string]native.Func{"echo": run}, native.WithValidate("echo", check))
			m := w.admit(callA, 10*time.Second)
			go w.ex.Handle(t.Context(), m)
			pass(11 * time.Second)
			close(release)
			w.wantAcked(m, true)
			if d := w.decided(1); d.Code != want || d.Effect != envelope.EffectNone {
				t.Errorf("want %s, decision %+v", want, d)
			}
		})
	}
}
