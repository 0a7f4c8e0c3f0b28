package dispatcher_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// fault makes a stage refuse a request.
type fault struct {
	step  int
	stage string
	edit  []string // of the request, as for [world.request]
	spoil func(*world, *dispatcher.Dispatcher, *call.IncomingRequest)
}

// denies is the spoil of a fault that a change of the policy makes.
func denies(edit func(*rules)) func(*world, *dispatcher.Dispatcher, *call.IncomingRequest) {
	return func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) { edit(&w.rules) }
}

// ofRun is the spoil of a fault that a change of the run r1 makes.
func ofRun(edit func(*world, *policy.Run)) func(*world, *dispatcher.Dispatcher, *call.IncomingRequest) {
	return func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) { edit(w, w.runs.r1) }
}

// faults returns a fault for each stage but the last, which refuses only what the stages before it let pass by mistake,
// and one for the admission. The record names the rule of a policy, and not the stage.
func faults() []fault {
	nothing := func(*world, *dispatcher.Dispatcher, *call.IncomingRequest) {}
	manifest := func(edit func(*tool.Manifest)) func(*world, *dispatcher.Dispatcher, *call.IncomingRequest) {
		return func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) { edit(w.manifest) }
	}
	return []fault{
		{1, "receive", []string{`{"call_id"`, `{call_id`}, nothing},
		{2, "identity", []string{`"actor_id":"agent"`, `"actor_id":"boss"`}, nothing},
		{2, "token", nil, func(_ *world, _ *dispatcher.Dispatcher, in *call.IncomingRequest) { in.Token = "nonsense" }},
		{2, "role", nil, func(_ *world, _ *dispatcher.Dispatcher, in *call.IncomingRequest) {
			in.Body = bytes.Replace(in.Body, []byte(`"role_id":"agent"`), []byte(`"role_id":"boss"`), 1)
		}},
		{3, "policy", nil, denies(func(r *rules) { r.err = policy.ErrStale })},
		{3, "lanes[l].runs", nil, func(w *world, _ *dispatcher.Dispatcher, in *call.IncomingRequest) {
			w.rules.named = true
			in.Body = bytes.Replace(in.Body, []byte(`"run_id":"r1",`), nil, 1)
		}},
		{3, "run", nil, ofRun(func(w *world, _ *policy.Run) { w.runs.err = errors.New("the bucket is silent") })},
		{3, "run", nil, ofRun(func(w *world, _ *policy.Run) { w.runs.stored = nil })},
		{3, "run.actors", nil, ofRun(func(_ *world, r *policy.Run) { r.Actors = []string{"boss"} })},
		{3, "run.state", nil, ofRun(func(_ *world, r *policy.Run) { r.State = policy.RunPaused })},
		{3, "run.policy_versions", nil, ofRun(func(w *world, _ *policy.Run) { w.rules.pinned = true })},
		{4, "roles[agent].allowed_lanes", nil, denies(func(r *rules) { r.lanes = "m" })},
		{5, "registered", nil, manifest(func(m *tool.Manifest) { m.ToolID = "other" })},
		{5, "tools[echo].enabled", nil, denies(func(r *rules) { r.disabled = true })},
		{5, "manifests[echo].status", nil, manifest(func(m *tool.Manifest) { m.Status = tool.StatusDisabled })},
		{5, "version", []string{`"1.x"`, `"2.x"`}, nothing},
		{5, "approved", nil, func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) {
			w.manifest.Endpoint, w.changed = defined{"d1"}, "d1"
		}},
		{6, "lanes[l].allowed_tools", nil, denies(func(r *rules) { r.tools = "" })},
		{6, "scopes", nil, manifest(func(m *tool.Manifest) { m.Security.RequiredScopes = []string{"admin"} })},
		{7, "lanes[l].required_scope_keys", nil, denies(func(r *rules) { r.keys = "case_id" })},
		{7, "function", []string{`"fn":"say"`, `"fn":"sing"`}, nothing},
		{7, "input", nil, func(_ *world, _ *dispatcher.Dispatcher, in *call.IncomingRequest) { in.InputRef = "nonsense" }},
		{7, "schema", []string{`{"n":1}`, `{"n":"x"}`}, nothing},
		{7, "sanitising", nil, func(w *world, _ *dispatcher.Dispatcher, in *call.IncomingRequest) {
			takesPath(w)
			in.Body = bytes.Replace(in.Body, []byte(`"input":{"n"`), []byte(`"input":{"to":"../a","n"`), 1)
		}},
		{8, "lanes[l].write", nil, denies(func(r *rules) { r.reads = true })},
		{8, "lanes[l].prohibited_flags[n]", nil, denies(func(r *rules) { r.flags = "n" })},
		{8, "lock", nil, func(_ *world, d *dispatcher.Dispatcher, _ *call.IncomingRequest) {
			d.Locks = lock.NewBoard()
			d.Locks.Learn([]envelope.Lock{{LockTarget: envelope.LockTarget{Tool: "echo"}, Reason: "r"}}, time.Now())
		}},
		{9, "dry run", []string{`abcdef"}`, `abcdef"},"dry_run":true`}, nothing},
		{9, "durability", nil, manifest(func(m *tool.Manifest) { m.AcceptRerun = false })},
		{9, "deadline", []string{`"deadline_unix_ms":9`, `"deadline_unix_ms":1`}, nothing},
		{9, "admission", nil, func(w *world, _ *dispatcher.Dispatcher, _ *call.IncomingRequest) { w.full = true }},
	}
}

// refusal sends a request with these faults, and returns the answer to it. It is refused once.
func (w *world) refusal(all ...fault) *envelope.Error {
	w.t.Helper()
	caller := someAgent()
	token := mint(w, guarded(w), caller)
	w.manifest.AcceptRerun = true
	d := w.dispatcher("d2", false)
	d.Tokens = w.d.Tokens
	w.rules = rules{lanes: "l, m", tools: "echo"}
	w.runs.r1 = &policy.Run{Tenant: "t", Actors: []string{"agent"}, State: policy.RunActive}
	w.runs.stored["r1"] = w.runs.r1
	edit := inRun("r1", "agent", "l")
	for _, f := range all {
		edit = append(edit, f.edit...)
	}
	in := w.request(1, edit...)
	in.Token, in.Reply = token, caller.Answers()+"word"
	for _, f := range all {
		f.spoil(w, d, in)
	}
	p := w.rules.in(w)
	if d.Policy = p; p.snapshot != nil && !w.rules.pinned {
		w.runs.r1.Pinned = p.snapshot.Versions()
	}
	d.Handle(w.t.Context(), in)
	answers := w.outcomes[in.Reply]
	if len(answers) != 1 || len(w.refused) != 1 {
		w.t.Fatalf("%d answers, %d records", len(answers), len(w.refused))
	}
	return answers[0].Error
}

// TestOrderOfStages holds that the earlier one of two stages refuses a request that both would refuse, that the record
// names it, that the answer has a diagnostic block, and that nothing is written to the log of the key, so that no tool
// runs.
func TestOrderOfStages(t *testing.T) {
	for i, first := range faults() {
		for _, second := range faults()[i:] {
			bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
				told := w.refusal(first, second)
				if r := w.refused[0]; r.Rule != first.stage || r.Step != first.step || r.Error.Code != told.Code {
					t.Errorf("%s, %s: recorded %s at step %d, rule %s", first.stage, second.stage, r.Error.Code, r.Step, r.Rule)
				}
				if d := told.Diagnostic; d == nil || slices.Contains([]string{
					d.ErrorCode, string(d.Category), d.Message, d.LikelyCause, d.SuggestedFix, string(d.Severity),
				}, "") {
					t.Errorf("%s: diagnostic %+v of %s", first.stage, d, told.Code)
				}
				if n := len(w.log.Entries()); n > 0 {
					t.Errorf("%s, %s: %d events of a refused call", first.stage, second.stage, n)
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
