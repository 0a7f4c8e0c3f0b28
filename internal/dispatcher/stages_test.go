package dispatcher_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// fault makes a stage refuse a request.
type fault struct {
	stage string
	edit  []string // of the request, as for [world.request]
	spoil func(*world, *dispatcher.Dispatcher, *call.IncomingRequest)
}

// faults returns a fault for each stage but the last, which refuses only what the stages before it let pass by mistake,
// and one for the admission.
func faults() []fault {
	nothing := func(*world, *dispatcher.Dispatcher, *call.IncomingRequest) {}
	manifest := func(edit func(*tool.Manifest)) func(*world, *dispatcher.Dispatcher, *call.IncomingRequest) {
		return func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) { edit(w.manifest) }
	}
	return []fault{
		{"receive", []string{`{"call_id"`, `{call_id`}, nothing},
		{"identity", []string{`"actor_id":"agent"`, `"actor_id":"boss"`}, nothing},
		{"token", nil, func(_ *world, _ *dispatcher.Dispatcher, in *call.IncomingRequest) { in.Token = "nonsense" }},
		{"registered", nil, manifest(func(m *tool.Manifest) { m.ToolID = "other" })},
		{"enabled", nil, manifest(func(m *tool.Manifest) { m.Status = tool.StatusDisabled })},
		{"version", []string{`"1.x"`, `"2.x"`}, nothing},
		{"approved", nil, func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) {
			w.manifest.Endpoint, w.changed = defined{"d1"}, "d1"
		}},
		{"scopes", nil, manifest(func(m *tool.Manifest) { m.Security.RequiredScopes = []string{"admin"} })},
		{"function", []string{`"fn":"say"`, `"fn":"sing"`}, nothing},
		{"input", nil, func(_ *world, _ *dispatcher.Dispatcher, in *call.IncomingRequest) { in.InputRef = "nonsense" }},
		{"schema", []string{`{"n":1}`, `{"n":"x"}`}, nothing},
		{"dry run", []string{`abcdef"}`, `abcdef"},"dry_run":true`}, nothing},
		{"durability", nil, manifest(func(m *tool.Manifest) { m.AcceptRerun = false })},
		{"deadline", []string{`"deadline_unix_ms":9`, `"deadline_unix_ms":1`}, nothing},
		{"admission", nil, func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) { w.full = true }},
	}
}

// refusedAt sends a request with these faults, and returns the stages that refused it, and the answers.
func refusedAt(w *world, all ...fault) (at []string, answers []*envelope.Response) {
	p := someAgent()
	token := mint(w, guarded(w), p)
	w.manifest.AcceptRerun = true
	d := w.dispatcher("d2", false)
	d.Tokens = w.d.Tokens
	d.Trace.Event = func(_ context.Context, s call.TraceEvent) {
		if s.At == call.TraceRefused {
			at = append(at, s.Stage)
		}
	}
	var edit []string
	for _, f := range all {
		edit = append(edit, f.edit...)
	}
	in := w.request(1, edit...)
	in.Token, in.Reply = token, p.Answers()+"word"
	for _, f := range all {
		f.spoil(w, d, in)
	}
	d.Handle(w.t.Context(), in)
	return at, w.outcomes[in.Reply]
}

// TestOrderOfStages holds that the earlier one of two stages refuses a request that both would refuse, that the answer
// has a diagnostic block, and that nothing is written to the log of the key, so that no tool runs.
func TestOrderOfStages(t *testing.T) {
	for i, first := range faults() {
		for _, second := range faults()[i:] {
			name := first.stage + " before " + second.stage
			if first.stage == second.stage {
				name = first.stage + " alone"
			}
			bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
				at, answers := refusedAt(w, first, second)
				if !slices.Equal(at, []string{first.stage}) || len(answers) != 1 {
					t.Fatalf("%s: refused at %q, %d answers", name, at, len(answers))
				}
				said := answers[0].Error
				if d := said.Diagnostic; d == nil || slices.Contains([]string{
					d.ErrorCode, string(d.Category), d.Message, d.LikelyCause, d.SuggestedFix, string(d.Severity),
				}, "") {
					t.Errorf("%s: diagnostic %+v of %s", name, d, said.Code)
				}
				if n := len(w.log.Entries()); n > 0 {
					t.Errorf("%s: %d events of a refused call", name, n)
				}
			})
		}
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
