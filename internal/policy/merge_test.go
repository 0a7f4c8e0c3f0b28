package policy_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

func TestMerge(t *testing.T) {
	e := entry("a", "one", "two")
	e.RequiredScopeKeys, e.ProhibitedFlags = []string{"case_id"}, []string{"force"}
	e.WriteTargets = []string{"file:/a/", "db:"}
	r, err := policy.Merge(e, manifest("a", "1.0.0", call.Idempotent, nil))
	want := policy.Rules{
		Enabled: true, Idempotent: true, TimeoutDefaultMS: 1000, AllowedLanes: []string{"one", "two"},
		RequiredScopeKeys: []string{"case_id"}, ProhibitedFlags: []string{"force"},
		WriteTargets: []string{"file:/a/", "db:"}, Writes: true,
	}
	if diff := cmp.Diff(want, r); diff != "" || err != nil {
		t.Errorf("a manifest that leaves all out restricts (-want +got): %v\n%s", err, diff)
	}
	m := manifest("a", "1.0.0", call.SideEffectful, map[string]any{
		"allowed_lanes": []string{"two", "three"}, "required_scope_keys": []string{"matter"},
		"prohibited_flags": []string{"raw"}, "write_targets": []string{"file:/a/b/", "file:/", "http:"},
		"limits": map[string]any{"timeout_ms_default": 500},
	})
	m.Status = "planned"
	r, err = policy.Merge(e, m)
	want = policy.Rules{
		TimeoutDefaultMS: 500, AllowedLanes: []string{"two"}, RequiredScopeKeys: []string{"case_id", "matter"},
		ProhibitedFlags: []string{"force", "raw"}, WriteTargets: []string{"file:/a/", "file:/a/b/"}, Writes: true,
	}
	if diff := cmp.Diff(want, r); diff != "" || err != nil {
		t.Errorf("entry and manifest (-want +got): %v\n%s", err, diff)
	}
	for target, may := range map[string]bool{"file:/a/x": true, "file:/b": false, "db:x": false, "": false} {
		if r.MayWrite(target) != may {
			t.Errorf("%q may be written: %t", target, !may)
		}
	}
	e.WriteTargets = []string{"*"}
	if r, _ := policy.Merge(e, m); !r.MayWrite("http:x") || r.MayWrite("db:x") {
		t.Errorf("targets of every target and the manifest's: %q", r.WriteTargets)
	}
	m = manifest("a", "1.0.0", call.SideEffectful, map[string]any{"write_targets": []string{"*"}})
	if r, _ := policy.Merge(entry("a"), m); r.MayWrite("x") {
		t.Error("an entry without write targets is widened by its manifest")
	}
	if m.Whole = []byte("[]"); true {
		if _, err := policy.Merge(e, m); err == nil {
			t.Error("a manifest that cannot be decoded restricts nothing")
		}
	}
}

// A registry that restricts more never allows more: neither a call nor a target.
func TestMoreRestrictive(t *testing.T) {
	for seed := range uint64(30) {
		restrictOnce(t, seed)
	}
}

func restrictOnce(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	g := generate(r, 4, 6, 12)
	before := compiled(t, g.documents(), g.tools...)
	for i := range g.entries {
		restrict(r, &g.entries[i])
	}
	if r.IntN(2) == 0 {
		g.entries = slices.Delete(g.entries, 0, 1)
	}
	set, err := policy.Parse(g.documents())
	if err != nil {
		t.Fatal(err)
	}
	after, err := policy.Compile(set, g.tools)
	if err != nil { // refused as a whole: it allows nothing
		return
	}
	for _, role := range g.roles {
		for _, lane := range g.lanes {
			for _, m := range g.tools {
				was, is := ask(before, role.ID, lane.ID, m.ToolID), ask(after, role.ID, lane.ID, m.ToolID)
				if r.IntN(2) == 0 {
					was.Scope, is.Scope = nil, nil
				}
				if r.IntN(2) == 0 {
					was.Input, is.Input = []byte(`{"force":true}`), []byte(`{"force":true}`)
				}
				if after.Decide(is).Allowed && !before.Decide(was).Allowed {
					t.Errorf("seed %d: now %s may call %s in %s", seed, role.ID, m.ToolID, lane.ID)
				}
			}
		}
	}
	for _, m := range g.tools {
		x, _ := before.Rules(m.ToolID, "")
		y, _ := after.Rules(m.ToolID, "")
		if y.MayWrite("file:/b/") && !x.MayWrite("file:/b/") || y.TimeoutDefaultMS > x.TimeoutDefaultMS ||
			y.Idempotent && !x.Idempotent {
			t.Errorf("seed %d: %s has %+v, before %+v", seed, m.ToolID, y, x)
		}
	}
}

// restrict makes an entry more restrictive in one way, or leaves it.
func restrict(r *rand.Rand, e *policy.Entry) {
	switch r.IntN(8) {
	case 0:
		e.Enabled = false
	case 1:
		e.Idempotent = false
	case 2:
		e.TimeoutDefaultMS /= 2
	case 3:
		e.AllowedLanes = e.AllowedLanes[:len(e.AllowedLanes)/2]
	case 4:
		e.RequiredScopeKeys = append(e.RequiredScopeKeys, "case_id")
	case 5:
		e.ProhibitedFlags = append(e.ProhibitedFlags, "force")
	case 6:
		e.WriteTargets = []string{"file:/a/"}
	case 7:
		if e.Versions == "" {
			e.Versions = "1.2.x"
		}
	}
}

// A set is refused if a tool that writes has no write target, or no lane for writes.
func TestTheSetMustFitTheTools(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"reads"}}}
	lanes := []policy.Lane{
		{ID: "reads", AllowedTools: []string{"*"}}, {ID: "writes", AllowedTools: []string{"b"}, Write: true},
	}
	withTarget := entry("b", "reads")
	withTarget.WriteTargets = []string{"file:"}
	good := entry("c", "reads")
	set, err := policy.Parse(policy.Write(roles, lanes, []policy.Entry{entry("a", "reads", "writes"), withTarget, good}))
	if err != nil {
		t.Fatal(err)
	}
	readOnly := manifest("c", "1.0.0", call.Idempotent, nil)
	readOnly.ReadOnly = true
	_, err = policy.Compile(set, append(manifests(call.SideEffectful, "a", "b"), readOnly))
	want := []string{
		"tools/tool_registry.yaml:3:5: a writes, and no write target is allowed by its entry and its manifest",
		"tools/tool_registry.yaml:8:20: a writes, and no lane with write: true allows it",
		"tools/tool_registry.yaml:16:20: b writes, and no lane with write: true allows it",
	}
	if err == nil {
		t.Fatal("compiled")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range want {
		if i >= len(lines) || !strings.HasPrefix(lines[i], line) || !strings.HasSuffix(lines[i], ")") {
			t.Errorf("problems:\n%v\nwant line %d: %s (fix)", err, i, line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("problems:\n%v", err)
	}
	if _, err := policy.Compile(set, manifests(call.Pure, "a", "b", "c")); err != nil {
		t.Errorf("pure tools need neither: %v", err)
	}
	broken := manifest("a", "1.0.0", call.Pure, nil)
	broken.Whole = []byte("{")
	if _, err := policy.Compile(set, append(manifests(call.Pure, "b"), broken)); err == nil {
		t.Error("compiled with a manifest that cannot be decoded")
	}
}
