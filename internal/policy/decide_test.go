package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// stepPolicy is a policy in which a call fails exactly the steps of a set: the tool t56 is disabled (step 5), and not
// permitted in the lane first (step 6).
func stepPolicy(t *testing.T) *policy.Snapshot {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"first", "second"}}}
	var lanes []policy.Lane
	for _, id := range []string{"first", "second", "third"} {
		lanes = append(lanes, policy.Lane{
			ID: id, AllowedTools: []string{"*"}, RequiredScopeKeys: []string{"case_id"},
			ProhibitedFlags: []string{"force"},
		})
	}
	var entries []policy.Entry
	var tools []*tool.Manifest
	for _, id := range []string{"t", "t5", "t6", "t56"} {
		e := entry(id, "first", "third")
		if strings.Contains(id, "6") {
			e.AllowedLanes = []string{"second"}
		}
		e.Enabled = !strings.Contains(id, "5")
		entries, tools = append(entries, e), append(tools, manifest(id, "1.0.0", call.Pure, nil))
	}
	return compiled(t, policy.Write(roles, lanes, entries), tools...)
}

// failing returns a call that fails the given steps.
func failing(s *policy.Snapshot, fails map[int]bool) policy.Question {
	q := ask(s, "agent", "first", "t")
	if fails[3] {
		q.Run = nil
	}
	if fails[4] {
		q.Lane = "third"
	}
	for _, step := range []int{5, 6} {
		if fails[step] {
			q.Tool += fmt.Sprint(step)
		}
	}
	if fails[7] {
		q.Scope = nil
	}
	if fails[8] {
		q.Input = jsontext.Value(`{"force":true}`)
	}
	return q
}

// Of any set of steps that fail, the earliest one answers, with its code.
func TestOrderOfSteps(t *testing.T) {
	codes := map[int]envelope.Code{
		3: envelope.CodeRunUnknown, 4: envelope.CodeLane, 5: envelope.CodeToolDisabled, 6: envelope.CodeToolInLane,
		7: envelope.CodeScopeKey, 8: envelope.CodeProhibited,
	}
	s := stepPolicy(t)
	kept := s.Case() // follows the questions, whatever changes between them
	for set := range 1 << 6 {
		fails, earliest := map[int]bool{}, 0
		for step := 8; step >= 3; step-- {
			if fails[step] = set&(1<<(step-3)) != 0; fails[step] {
				earliest = step
			}
		}
		d := s.Decide(failing(s, fails))
		if d.Allowed != (set == 0) || d.Code != codes[earliest] || d.Versions != s.Versions() {
			t.Errorf("steps %v fail: %+v", fails, d)
		}
		if set != 0 && (d.Step != earliest || d.Rule.String() == "" || s.Explain(failing(s, fails), d.Reason) == "") {
			t.Errorf("steps %v fail: step %d by rule %s", fails, d.Step, d.Rule)
		}
		for step := 3; step <= 8 && (step <= earliest || set == 0); step++ {
			if d := decideStep(s, step, failing(s, fails)); d.Allowed != (step != earliest) || d.Step != step {
				t.Errorf("steps %v fail, decided alone: %+v", fails, d)
			}
			q := failing(s, fails)
			if d := kept.Step(step, &q); (d == nil) != (step != earliest) {
				t.Errorf("steps %v fail, decided by a case: %+v", fails, d)
			}
		}
	}
}

// Each rule that can deny a call has a name of its own.
func TestRules(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"open", "shut"}}}
	lanes := []policy.Lane{
		{ID: "open", AllowedTools: []string{"*"}, Write: true},
		{
			ID: "shut", AllowedTools: []string{"local::*", "few", "pay", "risky", "narrow", "old"},
			RequiredScopeKeys: []string{"case_id"},
			ProhibitedFlags:   []string{"tag:dangerous", "effect:ExternalSideEffects", "force"},
			AllowedRunStates:  []policy.RunState{policy.RunPaused},
		},
	}
	few := entry("few", "open")
	keyed := entry("local::keyed", "open", "shut")
	keyed.RequiredScopeKeys, keyed.ProhibitedFlags = []string{"matter"}, []string{"raw"}
	writing := func(id string, lanes ...string) policy.Entry {
		e := entry(id, lanes...)
		e.WriteTargets = []string{"*"}
		return e
	}
	old := entry("old", "open", "shut")
	old.Versions = "^2"
	later, off := entry("later", "open"), entry("off", "open") // later is as policy init writes it
	later.Enabled, off.Enabled = false, false
	entries := []policy.Entry{
		few, keyed, writing("pay", "open", "shut"), entry("risky", "open", "shut"), entry("narrow", "open", "shut"),
		writing("mail", "open", "shut"), entry("gone", "open"), old, entry("planned", "open"),
		writing("local::mail", "open", "shut"), later, off,
	}
	risky, mail := manifest("risky", "1.0.0", call.Pure, nil), manifest("local::mail", "1.0.0", call.SideEffectful, nil)
	planned, unready := manifest("planned", "1.0.0", call.Pure, nil), manifest("later", "1.0.0", call.Pure, nil)
	unready.Status = tool.StatusPlanned
	risky.Tags, mail.Effect, planned.Status = []string{"dangerous"}, "ExternalSideEffects", tool.StatusPlanned
	s := compiled(t, policy.Write(roles, lanes, entries),
		manifest("few", "1.0.0", call.Pure, nil), manifest("local::keyed", "1.0.0", call.Pure, nil),
		manifest("pay", "1.0.0", call.Idempotent, nil), risky, mail, planned, unready,
		manifest("old", "1.0.0", call.Pure, nil), manifest("off", "1.0.0", call.Pure, nil),
		manifest("narrow", "1.0.0", call.Pure, map[string]any{"allowed_lanes": []string{"open"}}),
		manifest("mail", "1.0.0", call.SideEffectful, nil), manifest("unregistered", "1.0.0", call.Pure, nil))
	base := func(lane, toolID string) policy.Question {
		q := ask(s, "agent", lane, toolID)
		q.Scope["matter"] = "m"
		if lane == "shut" {
			q.Run.State = policy.RunPaused
		}
		return q
	}
	var all strings.Builder
	change := func(q policy.Question, f func(*policy.Question)) policy.Question { f(&q); return q }
	for _, c := range []struct {
		q    policy.Question
		code envelope.Code
		rule string
	}{
		{base("open", "few"), "", ""},
		{base("shut", "local::keyed"), "", ""},
		{change(base("open", "few"), func(q *policy.Question) { q.Run = nil }), "P-PRECOND-RUN_UNKNOWN", "run"},
		{change(base("open", "few"), func(q *policy.Question) { q.Run, q.RunID = nil, "" }), "P-PRECOND-RUN_UNKNOWN",
			"lanes[open].runs"},
		{change(base("open", "few"), func(q *policy.Question) { q.Tenant = "b" }), "P-PRECOND-RUN_UNKNOWN", "run.actors"},
		{change(base("open", "few"), func(q *policy.Question) { q.Actor = "agent://ab" }), "P-PRECOND-RUN_UNKNOWN",
			"run.actors"},
		{change(base("open", "few"), func(q *policy.Question) { q.Actor = "agent://a/b" }), "", ""},
		{change(base("open", "few"), func(q *policy.Question) { q.Run.State = "paused" }), "P-PRECOND-RUN_STATE",
			"run.state"},
		{change(base("shut", "local::keyed"), func(q *policy.Question) { q.Run.State = "active" }), "P-PRECOND-RUN_STATE",
			"run.state"},
		{change(base("open", "few"), func(q *policy.Question) { q.Run.Pinned.Roles = "" }), "P-PRECOND-POLICY_VERSION",
			"run.policy_versions"},
		{change(base("open", "few"), func(q *policy.Question) { q.Role = "none" }), "A-AUTH-LANE", "roles[none]"},
		{change(base("open", "few"), func(q *policy.Question) { q.Lane = "none" }), "A-AUTH-LANE",
			"roles[agent].allowed_lanes"},
		{change(base("open", "few"), func(q *policy.Question) { q.Run.Lanes = []string{"shut"} }), "A-AUTH-LANE",
			"run.lanes"},
		{change(base("open", "few"), func(q *policy.Question) { q.Run.Role = "other" }), "A-AUTH-LANE", "run.lanes"},
		{base("open", "nosuch"), "I-REQ-TOOL_UNKNOWN", "tools[nosuch]"},
		{base("open", "unregistered"), "I-REQ-TOOL_UNKNOWN", "tools[unregistered]"},
		{base("open", "gone"), "I-REQ-TOOL_UNKNOWN", "manifests[gone]"},
		{base("open", "planned"), "P-PRECOND-TOOL_DISABLED", "manifests[planned].status"},
		{base("open", "later"), "P-PRECOND-TOOL_DISABLED", "tools[later].enabled"},
		{base("open", "off"), "P-PRECOND-TOOL_DISABLED", "tools[off].enabled"},
		{base("open", "old"), "C-CONTRACT-VERSION", "tools[old].versions"},
		{change(base("open", "few"), func(q *policy.Question) { q.Version = "3.0.0" }), "I-REQ-TOOL_UNKNOWN",
			"manifests[few]"},
		{base("shut", "mail"), "A-AUTH-TOOL", "lanes[shut].allowed_tools"},
		{base("shut", "few"), "A-AUTH-TOOL", "tools[few].allowed_lanes"},
		{base("shut", "narrow"), "A-AUTH-TOOL", "manifests[narrow].allowed_lanes"},
		{change(base("shut", "local::keyed"), func(q *policy.Question) { q.Scope = nil }), "P-PRECOND-SCOPE_KEY",
			"lanes[shut].required_scope_keys"},
		{change(base("shut", "local::keyed"), func(q *policy.Question) { q.Scope["matter"] = "" }), "P-PRECOND-SCOPE_KEY",
			"tools[local::keyed].required_scope_keys"},
		{base("shut", "risky"), "A-AUTH-PROHIBITED", "lanes[shut].prohibited_flags[tag:dangerous]"},
		{base("shut", "local::mail"), "A-AUTH-PROHIBITED", "lanes[shut].prohibited_flags[effect:ExternalSideEffects]"},
		{base("shut", "pay"), "A-AUTH-PROHIBITED", "lanes[shut].write"},
		{change(base("shut", "local::keyed"), func(q *policy.Question) { q.Input = jsontext.Value(`{"force":1}`) }),
			"A-AUTH-PROHIBITED", "lanes[shut].prohibited_flags[force]"},
		{change(base("open", "local::keyed"), func(q *policy.Question) { q.Input = jsontext.Value(`{"raw":1}`) }),
			"A-AUTH-PROHIBITED", "tools[local::keyed].prohibited_flags[raw]"},
	} {
		d := s.Decide(c.q)
		if d.Allowed != (c.code == "") || d.Code != c.code || d.Rule.String() != c.rule {
			t.Errorf("%s in %s: %+v, want %s by %s", c.q.Tool, c.q.Lane, d, c.code, c.rule)
		}
		if !d.Allowed {
			says := s.Explain(c.q, d.Reason)
			fmt.Fprintf(&all, "%s %s: %s\n  fix: %s\n", d.Code, d.Rule, says, s.Refusal(c.q, d).Fix)
		}
	}
	golden(t, "testdata/denials.golden", all.String())
	if d := decideStep(s, 9, base("open", "few")); d.Allowed {
		t.Error("a step that no policy decides is allowed")
	}
	if d := decideStep(s, policy.StepPermit, base("none", "few")); d.Allowed {
		t.Error("an unknown lane permits a tool")
	}
}

// A call that names no run belongs to an implicit run where its lane has such runs and its role may use the lane. Else
// the step is denied that is at fault: the one of the run, or that of the lane.
func TestImplicitRuns(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"open", "strict"}}, {ID: "none"}}
	lanes := []policy.Lane{
		{ID: "open", AllowedTools: []string{"*"}, Runs: policy.RunsImplicit}, {ID: "strict", AllowedTools: []string{"*"}},
	}
	s := compiled(t, policy.Write(roles, lanes, []policy.Entry{entry("t", "open", "strict")}),
		manifest("t", "1.0.0", call.Pure, nil))
	for _, c := range []struct {
		role, lane, run string
		starts          bool
		step            int
		code            envelope.Code
	}{
		{"agent", "open", "", true, 3, envelope.CodeRunUnknown}, // while it is not started
		{"agent", "open", "r1", false, 3, envelope.CodeRunUnknown},
		{"agent", "strict", "", false, 3, envelope.CodeRunUnknown},
		{"none", "strict", "", false, 3, envelope.CodeRunUnknown},
		{"none", "open", "", false, 4, envelope.CodeLane},
		{"agent", "nosuch", "", false, 4, envelope.CodeLane},
		{"agent", "nosuch", "r1", false, 3, envelope.CodeRunUnknown},
	} {
		q := ask(s, c.role, c.lane, "t")
		q.Run, q.RunID = nil, c.run
		if d := s.Decide(q); s.StartsRun(q) != c.starts || d.Step != c.step || d.Code != c.code {
			t.Errorf("%+v: starts a run %t, %+v", c, s.StartsRun(q), d.Reason)
		}
	}
}

// Each caller has an implicit run of its own under each policy set.
func TestImplicitRunID(t *testing.T) {
	v := envelope.PolicyVersions{Roles: "r", Lanes: "l", ToolRegistry: "t"}
	all := map[string]bool{}
	for _, id := range []string{
		policy.ImplicitRunID("acme", "family", "", v), policy.ImplicitRunID("acme", "", "family", v),
		policy.ImplicitRunID("b", "family", "", v), policy.ImplicitRunID("acme", "family", "", envelope.PolicyVersions{}),
	} {
		if !policy.IsImplicitRunID(id) || all[id] {
			t.Errorf("%s is of two callers", id)
		}
		all[id] = true
	}
	if again := policy.ImplicitRunID("acme", "family", "", v); !all[again] {
		t.Errorf("%s is another id of the same caller", again)
	}
}

// A flag is requested by any value but false, null and what is empty.
func TestRequestedFlags(t *testing.T) {
	s := stepPolicy(t)
	for input, allowed := range map[string]bool{
		`{}`: true, `{"force":false}`: true, `{"force":null}`: true, `{"force":""}`: true, `{"force":[ ]}`: true,
		"{\"force\":{\n}}": true, `{"forced":true}`: true, `{"in":{"force":true}}`: true, `["force"]`: true, `"force"`: true,
		`{"force":true}`: false, `{"force":0}`: false, `{"force":" "}`: false, `{"force":[false]}`: false,
		`{"force":{"a":null}}`: false, `{"a":1, "f\u006frce":"no"}`: false, ``: true,
		`{"Force":true}`: false, `{"FORCE":1}`: false, `{"force":false,"Force":true}`: false, `{"Force":false}`: false,
		`{"\u0066ORCE":null}`: false,
	} {
		q := ask(s, "agent", "first", "t")
		if q.Input = jsontext.Value(input); s.Decide(q).Allowed != allowed {
			t.Errorf("arguments %s: allowed %t", input, !allowed)
		}
	}
}

// A tool that no lane of the role allows is answered as one that does not exist. The decision has the true reason.
func TestHiddenTools(t *testing.T) {
	roles := []policy.Role{
		{ID: "agent", AllowedLanes: []string{"first", "second"}}, {ID: "boss", AllowedLanes: []string{"top"}},
	}
	lanes := []policy.Lane{
		{ID: "first", AllowedTools: []string{"search.*", "secret", "charge"}},
		{ID: "second", AllowedTools: []string{"search.web"}},
		{ID: "top", AllowedTools: []string{"*"}, Write: true},
	}
	charge, off := entry("charge", "first", "top"), entry("secret.off", "top")
	charge.WriteTargets, off.Enabled = []string{"*"}, false
	s := compiled(t, policy.Write(roles, lanes, []policy.Entry{
		entry("secret", "top"), entry("search.web", "first", "second"), entry("search.file", "first"), charge, off,
	}), manifest("secret", "1.0.0", call.Pure, nil), manifest("search.web", "1.0.0", call.Pure, nil),
		manifest("search.file", "1.0.0", call.Pure, nil), manifest("charge", "1.0.0", call.SideEffectful, nil),
		manifest("secret.off", "1.0.0", call.Pure, nil))
	without := compiled(t, policy.Write(roles, lanes, []policy.Entry{
		entry("search.web", "first", "second"), entry("search.file", "first"),
	}), manifests(call.Pure, "search.web", "search.file")...)
	for id, want := range map[string]string{
		"secret":     `6 tools[secret].allowed_lanes A-AUTH-TOOL`,
		"charge":     `8 lanes[first].write A-AUTH-PROHIBITED`,
		"secret.off": `5 tools[secret.off].enabled P-PRECOND-TOOL_DISABLED`,
		"nosuch":     `5 tools[nosuch] I-REQ-TOOL_UNKNOWN`,
	} {
		q := ask(s, "agent", "first", id)
		d := s.Decide(q)
		if d.Step != 5 || d.Code != envelope.CodeToolUnknown {
			t.Errorf("%s: %+v", id, d)
		}
		if got := fmt.Sprintf("%d %s %s", d.True.Step, d.True.Rule, d.True.Code); got != want {
			t.Errorf("%s: the reason is %s, want %s", id, got, want)
		}
		unknown := ask(without, "agent", "first", id)
		if diff := cmp.Diff(without.Refusal(unknown, without.Decide(unknown)), s.Refusal(q, d)); diff != "" {
			t.Errorf("%s is not answered as an unknown tool (-unknown +got):\n%s", id, diff)
		}
	}
	q := ask(s, "agent", "first", "secre")
	if r := s.Refusal(q, s.Decide(q)); strings.Contains(r.Message, "secret") {
		t.Errorf("the answer suggests a tool that the caller may not know: %s", r.Message)
	}
	q.Tool = "search.wbe"
	if r := s.Refusal(q, s.Decide(q)); !strings.Contains(r.Message, `"search.web"`) {
		t.Errorf("the answer suggests nothing: %s", r.Message)
	}
	q = ask(s, "agent", "second", "search.file")
	if d := s.Decide(q); d.Code != envelope.CodeToolInLane || !strings.HasSuffix(s.Refusal(q, d).Fix, ": first") {
		t.Errorf("the denial does not name the other lane: %+v", d)
	}
	if got := s.Visible("agent", ""); cmp.Diff([]string{"search.file", "search.web"}, got) != "" {
		t.Errorf("visible to agents: %q", got)
	}
	if got := s.Visible("agent", "second"); cmp.Diff([]string{"search.web"}, got) != "" {
		t.Errorf("visible to agents in the lane second: %q", got)
	}
	if got := s.Visible("agent", "top"); got != nil {
		t.Errorf("visible in a lane of another role: %q", got)
	}
}

// A lane that the role lacks is answered as one that does not exist, with the most similar lane of the role.
func TestRefusalOfALane(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"open", "night"}}, {ID: "none"}}
	lanes := []policy.Lane{
		{ID: "open", AllowedTools: []string{"*"}, Runs: policy.RunsImplicit}, {ID: "night"}, {ID: "vip"},
	}
	s := compiled(t, policy.Write(roles, lanes, []policy.Entry{entry("t", "open")}),
		manifest("t", "1.0.0", call.Pure, nil))
	const own, allowing = "call in a lane of the role (--lane of toolbus call): night, open", ": open"
	for _, c := range []struct{ role, lane, tool, says, fix string }{
		{"agent", "opne", "t", `the role "agent" has no lane "opne"; did you mean "open"?`, allowing},
		{"agent", "Nigt", "x", `the role "agent" has no lane "Nigt"; did you mean "night"?`, own},
		{"agent", "vip", "x", `the role "agent" has no lane "vip"`, own},
		{"agent", "vup", "x", `the role "agent" has no lane "vup"`, own},
		{"none", "open", "t", `the role "none" has no lane "open"`, "roles.yaml allows to the role"},
		{"nobody", "open", "t", `the policy has no role "nobody"`, "`toolbus credentials issue --role-id`"},
	} {
		q := ask(s, c.role, c.lane, c.tool)
		d := s.Decide(q)
		r := s.Refusal(q, d)
		if d.Code != envelope.CodeLane || r.Message != c.says || !strings.HasSuffix(r.Fix, c.fix) {
			t.Errorf("%+v: %s: %s; fix: %s", c, d.Code, r.Message, r.Fix)
		}
	}
}

// A call that names no lane is answered about its tool where the role may not know it: the lane is not the caller's. A
// role that the policy lacks is answered as such.
func TestRefusalWithoutALane(t *testing.T) {
	roles := []policy.Role{{ID: "reader", AllowedLanes: []string{"reading"}}}
	lanes := []policy.Lane{{ID: "reading", AllowedTools: []string{"balance"}}, {ID: "paying", AllowedTools: []string{"*"}}}
	s := compiled(t, policy.Write(roles, lanes, []policy.Entry{entry("balance", "reading"), entry("pay", "paying")}),
		manifests(call.Pure, "balance", "pay")...)
	for _, c := range []struct {
		role, tool string
		laneless   bool
		code       envelope.Code
		says       string
	}{
		{"reader", "pay", true, envelope.CodeToolUnknown, `there is no tool "pay"`},
		{"reader", "balnce", true, envelope.CodeToolUnknown, `there is no tool "balnce"; did you mean "balance"?`},
		{"reader", "balance", true, envelope.CodeLane,
			`the call names no lane, and the role "reader" has no lane "default"`},
		{"reader", "pay", false, envelope.CodeLane, `the role "reader" has no lane "default"`},
		{"agent", "pay", true, envelope.CodeLane, `the policy has no role "agent"`},
	} {
		q := ask(s, c.role, "default", c.tool)
		q.Laneless = c.laneless
		d := s.Decide(q)
		if r := s.Refusal(q, d); d.True.Code != envelope.CodeLane || r.Code != c.code || r.Message != c.says {
			t.Errorf("%+v: on record %s, the answer is %s: %s", c, d.True.Code, r.Code, r.Message)
		}
		q.LaneBound = true
		if r := s.Refusal(q, d); c.role == "reader" && r.Code == envelope.CodeLane &&
			!strings.HasPrefix(r.Fix, "ask an operator for a credential for another lane") {
			t.Errorf("%+v, with a token for the lane: %s", c, r.Fix)
		}
	}
}

// decideStep decides one step.
func decideStep(s *policy.Snapshot, step int, q policy.Question) policy.Decision {
	if d := s.Case().Step(step, &q); d != nil {
		return *d
	}
	return policy.Decision{Allowed: true, Reason: policy.Reason{Step: step}}
}
