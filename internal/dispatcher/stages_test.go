package dispatcher_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// fault is what is wrong with a request, or with where it goes.
type fault struct {
	stage string // that refuses it
	edit  []string
	spoil func(*world, *call.IncomingRequest)
}

// A request with several faults is refused for the one that comes first in the order of the stages.
func TestOrderOfStages(t *testing.T) {
	nothing := func(*world, *call.IncomingRequest) {}
	faults := []fault{
		{"receive", []string{`{"call_id"`, `{call_id`}, nothing},
		{"identity", []string{`"actor_id":"agent"`, `"actor_id":"boss"`}, nothing},
		{"registered", nil, func(w *world, _ *call.IncomingRequest) { w.manifest.ToolID = "other" }},
		{"enabled", nil, func(w *world, _ *call.IncomingRequest) { w.manifest.Status = tool.StatusDisabled }},
		{"approved", nil, func(w *world, _ *call.IncomingRequest) { w.manifest.Endpoint, w.changed = defined{"d1"}, "d1" }},
		{"function", []string{`"fn":"say"`, `"fn":"sing"`}, nothing},
		{"input", nil, func(_ *world, in *call.IncomingRequest) { in.InputRef = "nonsense" }},
		{"schema", []string{`{"n":1}`, `{"n":"x"}`}, nothing},
		{"version", []string{`"1.x"`, `"2.x"`}, nothing},
		{"dry run", []string{`abcdef"}`, `abcdef"},"dry_run":true`}, nothing},
		{"durability", nil, func(w *world, _ *call.IncomingRequest) { w.manifest.AcceptRerun = false }},
		{"deadline", []string{`"deadline_unix_ms":9`, `"deadline_unix_ms":1`}, nothing},
		{"admission", nil, func(w *world, _ *call.IncomingRequest) { w.full = true }},
	}
	for i := range faults {
		bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
			w.manifest.AcceptRerun = true
			lax := w.dispatcher("d2", false)
			var at []string
			lax.Trace.Event = func(_ context.Context, s call.TraceEvent) {
				if s.At == call.TraceRefused {
					at = append(at, s.Stage)
				}
			}
			var edit []string
			for _, f := range faults[i:] {
				edit = append(edit, f.edit...)
			}
			in := w.request(1, edit...)
			for _, f := range faults[i:] {
				f.spoil(w, in)
			}
			lax.Handle(t.Context(), in)
			if want := faults[i].stage; !slices.Equal(at, []string{want}) {
				t.Errorf("refused at %q, want %q", at, want)
			}
		})
	}
}

// Whoever observes a dispatcher is told every step of a call, of one that joins it, and of one that comes after it.
func TestSteps(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.stop()
		var steps []call.TracePoint
		w.step = func(_ context.Context, s call.TraceEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			steps = append(steps, s.At)
		}
		w.run("d2")
		want := func(when string, points ...call.TracePoint) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !slices.Equal(steps, points) {
				t.Errorf("%s: %q, want %q", when, steps, points)
			}
			steps = nil
		}
		w.ask(1)
		want("the first", "received", "before-admit", "after-admit", "accepted")
		w.ask(2)
		want("a joiner, who might have been the first", "received", "before-admit", "before-join", "after-join", "accepted")
		w.decide("")
		want("the outcome", "told")
		w.ask(3)
		want("a repeat", "received", "before-admit", "replayed")
		w.ask(4, "0123456789abcdef", "another-0123456789")
		want("another", "received", "before-admit", "after-admit", "accepted")
		pass(time.Minute)
		want("a deadline", "before-timeout", "after-decide")
	})
}
