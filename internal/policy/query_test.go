package policy_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// large is the policy of the bounds: 100 roles, 200 lanes and 5,000 tools.
func large() generated { return generate(rand.New(rand.NewPCG(29, 1)), 100, 200, 3000) }

// BenchmarkWhoCan answers who can call a tool, from the documents of a large policy on. It should take less than 10 s.
func BenchmarkWhoCan(b *testing.B) {
	g := large()
	for b.Loop() {
		s := compiled(b, g.documents(), g.tools...)
		if len(s.WhoCan("t1"))+len(s.WhoCan("t2")) == 0 {
			b.Fatal("nobody can call the tools")
		}
	}
}

// WhoCan agrees with Decide on a million cells of a large policy. BenchmarkWhoCan measures it.
func TestWhoCanAgreesWithDecide(t *testing.T) {
	g := large()
	s := compiled(t, g.documents(), g.tools...)
	type cell struct{ role, lane, tool string }
	granted := map[cell]bool{}
	for _, m := range g.tools {
		for _, grant := range s.WhoCan(m.ToolID) {
			granted[cell{grant.Role, grant.Lane, grant.Tool}] = true
		}
	}
	r := rand.New(rand.NewPCG(29, 2))
	allowed, run := 0, running(s)
	questions := 1_000_000
	if testing.Short() {
		questions /= 8
	}
	for range questions {
		role := g.roles[r.IntN(len(g.roles))]
		c := cell{role.ID, g.lanes[r.IntN(len(g.lanes))].ID, g.tools[r.IntN(len(g.tools))].ToolID}
		if r.IntN(4) > 0 { // most cells would fail at their lane
			c.lane = role.AllowedLanes[r.IntN(len(role.AllowedLanes))]
		}
		q := policy.Question{
			Role: c.role, Lane: c.lane, Tool: c.tool, Tenant: "acme", Actor: "agent://a", Run: run,
			Scope: map[string]string{"case_id": "1"},
		}
		d := s.Decide(q)
		if d.Allowed != granted[c] {
			t.Fatalf("%+v: who-can says %t, but the decision is %+v", c, granted[c], d)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed < questions/1000 {
		t.Errorf("only %d of the cells are allowed", allowed)
	}
}

// A call that names no lane is in the fallback, unless Decide allows it in exactly one lane, and not in the fallback. A
// tool that is disabled has the lanes that it would have if it were not.
func TestLaneFor(t *testing.T) {
	g := generate(rand.New(rand.NewPCG(30, 1)), 20, 6, 60)
	s := compiled(t, g.documents(), g.tools...)
	for i := range g.entries {
		g.entries[i].Enabled, g.entries[i].Versions = true, ""
	}
	enabled, seen, disabled := compiled(t, g.documents(), g.tools...), map[bool]int{}, 0
	for _, role := range g.roles {
		for _, m := range g.tools {
			may := allowing(s, g, role.ID, m.ToolID)
			if len(may) == 0 {
				if may = allowing(enabled, g, role.ID, m.ToolID); len(may) == 1 {
					disabled++
				}
			}
			for _, fallback := range []string{g.lanes[0].ID, "none"} {
				want := fallback
				if len(may) == 1 {
					want = may[0]
				}
				if got := s.LaneFor(role.ID, m.ToolID, fallback); got != want {
					t.Fatalf("%s calls %s, which the lanes %q allow: %q, want %q", role.ID, m.ToolID, may, got, want)
				}
				seen[len(may) == 1 && fallback == "none"]++
			}
		}
	}
	if seen[true] < 10 || seen[false] < 10 || disabled == 0 ||
		s.LaneFor("nobody", "t1", "x") != "x" || s.LaneFor("r1", "?", "x") != "x" {
		t.Errorf("cases %v, %d disabled", seen, disabled)
	}
}

// allowing returns the lanes in which Decide allows a call.
func allowing(s *policy.Snapshot, g generated, role, toolID string) (lanes []string) {
	for _, l := range g.lanes {
		if d := s.Decide(policy.Question{
			Role: role, Lane: l.ID, Tool: toolID, Tenant: "acme", Actor: "agent://a", Run: running(s),
			Scope: map[string]string{"case_id": "1"},
		}); d.Allowed {
			lanes = append(lanes, l.ID)
		}
	}
	return lanes
}

func TestCan(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"one", "two"}}, {ID: "idle"}}
	lanes := []policy.Lane{
		{
			ID: "two", AllowedTools: []string{"a"}, RequiredScopeKeys: []string{"case_id"},
			ProhibitedFlags: []string{"x", "tag:y"},
		},
		{ID: "one", AllowedTools: []string{"*"}, Write: true, Runs: policy.RunsImplicit},
	}
	a, b := entry("a", "one", "two"), entry("b", "one")
	a.ProhibitedFlags, b.WriteTargets = []string{"force"}, []string{"*"}
	s := compiled(t, policy.Write(roles, lanes, []policy.Entry{a, b}), manifest("a", "1.0.0", call.Pure, nil),
		manifest("a", "1.1.0", call.Pure, nil), manifest("b", "1.0.0", call.SideEffectful, nil))
	active := []string{"active"}
	one := policy.Grant{
		Role: "agent", Lane: "one", Tool: "a", Version: "1.0.0", ProhibitedFlags: []string{"force"}, RunStates: active,
		Runs: policy.RunsImplicit,
	}
	two := policy.Grant{
		Role: "agent", Lane: "two", Tool: "a", Version: "1.0.0", RequiredScopeKeys: []string{"case_id"},
		ProhibitedFlags: []string{"force", "x"}, RunStates: active,
	}
	newer := func(g policy.Grant) policy.Grant { g.Version = "1.1.0"; return g }
	want := []policy.Grant{one, newer(one), two, newer(two)}
	if diff := cmp.Diff(want, s.WhoCan("a")); diff != "" {
		t.Errorf("who can a (-want +got):\n%s", diff)
	}
	write := policy.Grant{
		Role: "agent", Lane: "one", Tool: "b", Version: "1.0.0", Writes: true, RunStates: active, Runs: policy.RunsImplicit,
	}
	if diff := cmp.Diff(append(want, write), s.Can("agent")); diff != "" {
		t.Errorf("agents can (-want +got):\n%s", diff)
	}
	if all := slices.Concat(s.Can("idle"), s.Can("nobody"), s.WhoCan("c")); len(all) > 0 {
		t.Errorf("grants of nobody: %v", all)
	}
	if !slices.Equal(s.Roles(), []string{"agent", "idle"}) {
		t.Errorf("roles %v", s.Roles())
	}
	if l, ok := s.Lane("two"); !ok || l.Write || l.AllowedRunStates[0] != policy.RunActive {
		t.Errorf("lane two: %+v", l)
	}
	if _, ok := s.Lane("none"); ok {
		t.Error("there is a lane none")
	}
	if _, ok := s.Rules("a", "2.0.0"); ok {
		t.Error("there are rules of an unknown version")
	}
}

// A tool that nobody can call is disabled, in no lane, or in lanes of no role.
func TestWhyNobody(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"reading"}}}
	lanes := []policy.Lane{
		{ID: "reading", AllowedTools: []string{"off", "plan"}}, {ID: "own", AllowedTools: []string{"*"}},
	}
	off := entry("off", "reading")
	off.Enabled = false
	planned := manifest("plan", "1.0.0", call.Pure, nil)
	planned.Status = tool.StatusPlanned
	s := compiled(t, policy.Write(roles, lanes, []policy.Entry{
		off, entry("plan", "reading"), entry("none", "reading"), entry("foreign", "own"),
	}), append(manifests(call.Pure, "off", "none", "foreign"), planned)...)
	for id, want := range map[string]string{
		"off": `the policy disables the tool "off" (tools[off].enabled)`, "foreign": "no role may use a lane that allows it",
		"plan": `tool "plan" is planned (manifests[plan].status)`, "none": "no lane allows it: the lane, the entry and the " +
			"manifest must, and a lane with write: true if it writes",
	} {
		if got := s.WhyNobody(id); got != want || s.WhoCan(id) != nil {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// BenchmarkDecide measures the decision with a large policy, and its 99th percentile.
func BenchmarkDecide(b *testing.B) {
	g := large()
	s := compiled(b, g.documents(), g.tools...)
	r := rand.New(rand.NewPCG(29, 3))
	questions := make([]policy.Question, 10_000)
	for i := range questions {
		role := g.roles[r.IntN(len(g.roles))]
		lane := role.AllowedLanes[r.IntN(len(role.AllowedLanes))]
		questions[i] = ask(s, role.ID, lane, g.tools[r.IntN(len(g.tools))].ToolID)
	}
	took := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		s.Decide(questions[i%len(questions)])
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// manifests returns manifests of a class.
func manifests(class call.EffectClass, ids ...string) (all []*tool.Manifest) {
	for _, id := range ids {
		all = append(all, manifest(id, "1.0.0", class, nil))
	}
	return all
}
