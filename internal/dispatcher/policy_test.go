package dispatcher_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	manifests "github.com/seed-018f16cc/toolbus/internal/tool"
)

// rules is a policy: role agent may use some of the lanes l and m, and role s no lane with a tool. Lane m allows the
// tool echo, and lane l what the fields say.
type rules struct {
	lanes    string // of role agent
	named    bool   // each call in the lanes l and m must name a run
	tools    string // of lane l, as are the next three
	keys     string
	flags    string
	reads    bool
	strict   bool   // the record of lane l
	disabled bool   // the tool
	once     bool   // the tool is not idempotent
	targets  string // to which the tool may write; "" is every one
	pinned   bool   // the run of a test of stages is pinned to another policy
	err      error
}

// in returns the policy for the tool of w.
func (r rules) in(w *world) inForce {
	if r.err != nil {
		return inForce{nil, r.err}
	}
	audit, implicit := "", "runs: implicit, "
	if r.strict {
		audit = ", audit: strict"
	}
	if r.named {
		implicit = ""
	}
	d := policy.Documents{
		Roles: fmt.Appendf(nil, "roles: [{role_id: agent, allowed_lanes: [%s]}, "+
			"{role_id: s, allowed_lanes: [none]}]", r.lanes),
		Lanes: fmt.Appendf(nil, "lanes: [{lane_id: l, allowed_tools: [%s], required_scope_keys: [%s], "+
			"prohibited_flags: [%s], %swrite: %t%s}, {lane_id: m, %sallowed_tools: [echo], write: true}, "+
			"{lane_id: none, runs: implicit, allowed_tools: []}]", r.tools, r.keys, r.flags, implicit, !r.reads, audit,
			implicit),
		ToolRegistry: fmt.Appendf(nil, "tools: [{tool_name: echo, description: says it, enabled: %t, idempotent: %t, "+
			"timeout_default_ms: 1000, allowed_lanes: [l, m], required_scope_keys: [], prohibited_flags: [], "+
			"write_targets: [%s]}]", !r.disabled, !r.once, cmp.Or(r.targets, "'*'")),
	}
	set, err := policy.Parse(d)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := policy.Compile(set, []*manifests.Manifest{w.manifest})
	if err != nil {
		w.t.Fatal(err)
	}
	return inForce{s, nil}
}

type inForce struct {
	snapshot *policy.Snapshot
	err      error
}

func (p inForce) Current() (*policy.Snapshot, error) { return p.snapshot, p.err }

// ofRole edits a request to be of a role and in a lane.
func ofRole(role, lane string) []string {
	return []string{`"env":"dev"`, fmt.Sprintf(`"env":"dev","role_id":%q,"lane_id":%q`, role, lane)}
}

// A tool that no lane of the caller's role allows does not exist for the caller: the answer is that for an unknown
// tool, and suggests nothing that the caller may not know. The record has the true reason.
func TestHiddenTools(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.d.Policy = rules{lanes: "l, m", tools: "echo"}.in(w)
		hidden := w.answer(1, ofRole("s", "none")...)
		unknown := strings.ReplaceAll(w.answerTo(2, "ecno", ofRole("s", "none")...), "ecno", "echo")
		if hidden != unknown || !strings.Contains(hidden, string(envelope.CodeToolUnknown)) {
			t.Errorf("hidden:  %s\nunknown: %s", hidden, unknown)
		}
		if known := w.answerTo(3, "ecno", ofRole("agent", "l")...); !strings.Contains(known, `did you mean \"echo\"`) {
			t.Errorf("to who may know it: %s", known)
		}
		if r := w.refused[0]; r.Step != 6 || r.Rule != "lanes[none].allowed_tools" ||
			r.Error.Code != envelope.CodeToolInLane || r.Policies != w.d.Policy.(inForce).snapshot.Versions() {
			t.Errorf("recorded: %d, %s, %v", r.Step, r.Rule, r.Error)
		}
	})
}

// answer sends request n, and returns the answer as text, but for the ids of the request.
func (w *world) answer(n int, edit ...string) string { return w.answerTo(n, "echo", edit...) }

// answerTo is answer for a tool.
func (w *world) answerTo(n int, tool string, edit ...string) string {
	w.t.Helper()
	in := w.request(n, append(edit, `"tool_id":"echo"`, `"tool_id":"`+tool+`"`)...)
	in.Subject, in.Tool = "tb.call.t.agent."+tool, tool
	w.d.Handle(w.t.Context(), in)
	text, err := json.Marshal(w.outcome(n), json.Deterministic(true))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), uuid(n), "ID")
}

// An explanation of an allowed call names the role, the lane and the policy. Without a policy there is nothing to name.
func TestWhyAllowed(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.d.Policy = rules{lanes: "l, m", tools: "echo"}.in(w)
		w.ask(1, ofRole("agent", "l")...)
		v := w.d.Policy.(inForce).snapshot.Versions()
		want := fmt.Sprintf("\nRole agent may make it in lane l: policy roles %s, lanes %s, tool registry %s.",
			v.Roles[:12], v.Lanes[:12], v.ToolRegistry[:12])
		for _, state := range []string{"open", "ended"} {
			why, refusal := w.d.Why(t.Context(), from("agent"), w.query(1))
			if refusal != nil || !strings.HasSuffix(why.Sentence, want) || len(why.Sentence) == len(want) {
				t.Errorf("%s: %s, %v", state, why.Sentence, refusal)
			}
			if state == "open" {
				w.decide("")
			}
		}
		if says := (call.Owner{Role: "agent", Lane: "l"}).Allowed(); says != "" {
			t.Error(says)
		}
	})
}

// A policy that allows a call no more changes nothing for a call that was admitted: its request has its outcome.
// Another request with its key is decided by the policy of today.
func TestPolicyKeepsOutcomes(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.d.Policy = rules{lanes: "l, m", tools: "echo"}.in(w)
		w.ask(1, ofRole("agent", "l")...)
		w.decide("")
		w.d.Policy = rules{lanes: "m", tools: "echo"}.in(w)
		w.outcomes = map[string][]*envelope.Response{}
		w.ask(1, ofRole("agent", "l")...)
		if r := w.outcome(1); r.Status != envelope.Success {
			t.Errorf("the outcome is %v now", r.Error)
		}
		w.ask(2, ofRole("agent", "l")...)
		if r := w.outcome(2); r.Error == nil || r.Error.Code != envelope.CodeLane {
			t.Errorf("another request with the key: %+v", r)
		}
	})
}

// While a dispatcher does not know the policy, or cannot use it, it refuses calls, and the answer is not final.
func TestNoPolicyKnown(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		for n, c := range []struct {
			err  error
			code envelope.Code
		}{
			{policy.ErrStale, envelope.CodeUnavailable},
			{fmt.Errorf("%w: of another kind", policy.ErrUnusable), envelope.CodePolicyVersion},
		} {
			w.d.Policy = inForce{nil, c.err}
			w.ask(n, ofRole("agent", "l")...)
			r := w.outcome(n)
			if r.Error != nil && strings.Contains(r.Error.Fix, "start executors") {
				t.Errorf("%v: fix %s", c.err, r.Error.Fix)
			}
			if r.Error == nil || r.Error.Code != c.code || r.Provenance.Final || strings.Contains(r.Error.String(), "kind") {
				t.Errorf("%v: %v, final %t", c.err, r.Error, r.Provenance.Final)
			}
		}
	})
}

// On a bus without a policy, a dispatcher refuses each call: on record, without a trace in the log of its key, and not
// for good. After a push the same request passes. A dispatcher without a source of policies refuses as well.
func TestNoPolicy(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		pushed := w.d.Policy
		for n, without := range []check.Policy{inForce{nil, policy.ErrNone}, nil} {
			w.d.Policy = without
			w.ask(n)
			r, e := w.outcome(n).Provenance, w.outcome(n).Error
			if e == nil || e.Code != envelope.CodePolicyVersion || r.Final || !r.NotStarted || e.Details.Effect !=
				envelope.EffectNone || !strings.Contains(e.Fix, "policy init") || !strings.Contains(e.Fix, "policy push") {
				t.Errorf("told %+v, final %t", e, r.Final)
			}
			if len(w.refused) != n+1 || w.refused[n].Rule != "policy" || w.refused[n].Step != 3 {
				t.Errorf("on record is %+v", w.refused)
			}
		}
		if len(w.log.Entries()) > 0 {
			t.Error("refused calls are in the log")
		}
		w.d.Policy = pushed
		delete(w.outcomes, "inbox0")
		if w.ask(0); w.acceptedBy(0) != 1 {
			t.Errorf("after the push: %+v", w.outcomes["inbox0"])
		}
	})
}

// The entry and the lane restrict how a call runs, and its attempt keeps that, with the versions of the policy. A later
// attempt is decided by the policy of its time.
func TestTerms(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		w.d.Policy = rules{lanes: "l, m", tools: "echo"}.in(w)
		w.ask(1, ofRole("agent", "l")...)
		s := w.state()
		if a := s.Last(); s.Class != call.Idempotent || a.Strict || !a.Writes || len(w.bounds()) > 0 ||
			a.Owner.Policy.Versions() != w.d.Policy.(inForce).snapshot.Versions() {
			t.Errorf("admitted as %+v", s)
		}
		w.decide(envelope.CodeUpstream)
		first := s.Last().Owner.Policy
		w.d.Policy = rules{lanes: "l, m", tools: "echo", strict: true, once: true, targets: "'db:', 'file:/x'"}.in(w)
		w.ask(2, ofRole("agent", "l")...)
		s = w.state()
		if a := s.Last(); a.N != 2 || s.Class != call.Idempotent || !a.Strict || !a.Writes ||
			a.Owner.Policy == first || !slices.Equal(w.bounds(), []string{"db:", "file:/x"}) {
			t.Errorf("admitted as %+v, bounded by %q", s, w.bounds())
		}
	})
}

// An entry that is not idempotent makes an idempotent or pure tool side-effectful. Only the idempotent one then needs a
// server that syncs its writes.
func TestNotIdempotentByPolicy(t *testing.T) {
	for _, class := range []call.EffectClass{call.Idempotent, call.Pure} {
		for _, fsync := range []bool{true, false} {
			bubble(t, class, func(t *testing.T, w *world) {
				w.d.Policy, w.d.Fsync = rules{lanes: "l, m", tools: "echo", once: true}.in(w), fsync
				w.ask(1, ofRole("agent", "l")...)
				if !fsync && class == call.Idempotent {
					if e := w.outcome(1).Error; e.Code != envelope.CodeDurability {
						t.Errorf("without fsync: %+v", e)
					}
					return
				}
				if s := w.state(); s.Class != call.SideEffectful || s.Lookup != call.LookupNo {
					t.Errorf("%s is admitted as %+v", class, s)
				}
			})
		}
	}
}

// bounds returns the write targets in the newest request.
func (w *world) bounds() []string {
	w.t.Helper()
	entries := w.log.Entries()
	body, err := call.DecodeRequestBody(entries[len(entries)-1].Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return body.WriteTargets
}
