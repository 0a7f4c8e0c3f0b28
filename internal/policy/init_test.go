package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// The generated set allows each call of each tool that can be called, and restricts nothing that a manifest says.
func TestGenerate(t *testing.T) {
	planned := manifest("later", "1.0.0", call.Pure, nil)
	planned.Status, planned.Description = tool.StatusPlanned, ""
	pay := manifest("pay", "1.0.0", call.SideEffectful, map[string]any{
		"allowed_lanes": []string{"payments", " "}, "write_targets": []string{"bank:"},
	})
	odd := manifest("odd", "1.0.0", call.SideEffectful, map[string]any{"write_targets": []string{"a*b"}})
	odd.Description = "Says \"x: y\" # and\nmore 😀."
	tools := append(manifests(call.Idempotent, "text.search", "mcp::github::list"), planned, pay, odd,
		manifest("pay", "2.0.0", call.SideEffectful, nil))
	d, err := policy.Generate(tools)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/generated.golden", strings.Join(
		[]string{string(d.Roles), string(d.Lanes), string(d.ToolRegistry)}, "---\n"))
	s := compiled(t, d, tools...)
	for _, m := range tools {
		lane := policy.DefaultLane
		if m == pay {
			lane = "payments"
		}
		q := ask(s, policy.DefaultRole, lane, m.ToolID)
		if q.Version = m.Semver; s.Decide(q).Allowed != m.Callable() && m.ToolID != "pay" {
			t.Errorf("%s %s: %+v", m.ToolID, m.Semver, s.Decide(q))
		}
	}
	if r, _ := s.Rules("odd", ""); r.MayWrite("x") || !r.MayWrite("a*b") {
		t.Errorf("targets of a manifest with a star: %q", r.WriteTargets)
	}
	set, err := policy.Parse(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range set.Entries {
		if e.ToolName == "odd" && e.Description != odd.Description {
			t.Errorf("description %q", e.Description)
		}
	}
	if pay.Whole = []byte("["); true {
		if _, err := policy.Generate(tools); err == nil {
			t.Error("generated from a manifest that cannot be decoded")
		}
	}
}

// A bus without tools has a set that allows nothing. Whatever Write writes is read as it was.
func TestWrite(t *testing.T) {
	d, err := policy.Generate(nil)
	if err != nil || len(compiled(t, d).Can(policy.DefaultRole)) > 0 {
		t.Errorf("a set without tools: %v", err)
	}
	want := policy.Lane{
		ID: "null", AllowedTools: []string{"true", "a", "1.5"}, RequiredScopeKeys: []string{"a: b"}, Write: true,
		ProhibitedFlags: []string{"tag:#x", "yes"}, AllowedRunStates: []policy.RunState{"active", "paused"},
		Runs: policy.RunsImplicit, Audit: policy.AuditStrict,
	}
	e := entry("1e3", "null")
	e.RequiredScopeKeys, e.ProhibitedFlags, e.Versions = []string{"~"}, []string{"*"}, ">=1 <2"
	set, err := policy.Parse(policy.Write(nil, []policy.Lane{want}, []policy.Entry{e}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, set.Lanes[0]) + cmp.Diff(e, set.Entries[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLint(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"default"}}}
	lanes := []policy.Lane{{
		ID: "default", AllowedTools: []string{"a", "nosuch", "mcp::*", "*"},
		ProhibitedFlags: []string{"tag:risky", "tag:known"},
	}}
	a := entry("a", "default")
	a.WriteTargets = []string{"file:", "*"}
	tools := manifests(call.Pure, "a", "new")
	tools[1].Tags = []string{"known"}
	problems, err := policy.Lint(policy.Write(roles, lanes, []policy.Entry{a, entry("gone", "default")}), tools)
	if err != nil || problems.Failed() {
		t.Error("warnings fail", err)
	}
	golden(t, "testdata/lint.golden", problems.Error()+"\n")
}

// Lint warns of a lane in which a tool that writes can never be called, and of a prohibited flag that misspells an
// argument. Without any tool it does not judge which tools there are.
func TestLintOfTools(t *testing.T) {
	roles := []policy.Role{{ID: "reader", AllowedLanes: []string{"read", "write"}}, {ID: "idle", AllowedLanes: []string{}}}
	lanes := []policy.Lane{
		{ID: "read", AllowedTools: []string{"text.*"}, ProhibitedFlags: []string{"overwrit", "Overwrite", "zone", "tag:x"}},
		{ID: "write", AllowedTools: []string{"*"}, Write: true},
	}
	search := entry("text.search", "read", "write")
	search.WriteTargets, search.ProhibitedFlags = []string{"file:/srv/"}, []string{"overwrite", "overwritten"}
	m := taking(t, "text.search", "1.0.0", `{"properties":{"overwrite":{"type":"boolean"}}}`)
	m.Class = call.Idempotent
	d := policy.Write(roles, lanes, []policy.Entry{search, entry("text.gone", "read")})
	for name, c := range map[string]struct {
		tools []*tool.Manifest
		want  []string
	}{
		"with tools": {[]*tool.Manifest{m}, []string{
			"the role idle has no lane, so no call with it is allowed",
			"text.search writes, so no call of it is allowed in the lane read, which is not for writes",
			"no tool has the argument overwritten", "the tool text.gone does not exist here",
			"no tool has the argument overwrit", "no tool has the tag x",
		}},
		"without": {nil, []string{
			"no tool is there, so the set is checked without its tools",
			"the role idle has no lane, so no call with it is allowed",
		}},
	} {
		found, err := policy.Lint(d, c.tools)
		var got []string
		for _, p := range found {
			got = append(got, p.Message)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil || found.Failed() {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	m.ReadOnly = true
	if found, _ := policy.Lint(d, []*tool.Manifest{m}); strings.Contains(found.Error(), "writes") {
		t.Errorf("read-only: %v", found)
	}
}

// Problems of documents hide none that the manifests show. An entry in a lane that does not exist is wrong about that
// alone, and a registry that cannot be read is no reason to warn of each tool.
func TestLintHidesNone(t *testing.T) {
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"defualt"}}}
	lanes := []policy.Lane{{ID: "default", AllowedTools: []string{"*"}}}
	tools := append(manifests(call.SideEffectful, "a", "b"), manifests(call.Pure, "new")...)
	d := policy.Write(roles, lanes, []policy.Entry{entry("a", "defualt"), entry("b", "default")})
	for name, c := range map[string]struct {
		documents policy.Documents
		want      []string
	}{
		"a lane": {d, []string{
			`policy/lanes.yaml has no lane "defualt"`, `policy/lanes.yaml has no lane "defualt"`,
			"a writes, and no write target is allowed by its entry and its manifest",
			"b writes, and no write target is allowed by its entry and its manifest",
			"b writes, and no lane with write: true allows it", "the tool new is not registered, so it cannot be called",
		}},
		"no registry": {policy.Documents{Roles: d.Roles, Lanes: d.Lanes, ToolRegistry: []byte("tools: {")}, []string{
			`policy/lanes.yaml has no lane "defualt"`, "",
		}},
	} {
		found, err := policy.Lint(c.documents, tools)
		if err != nil || len(found) != len(c.want) {
			t.Errorf("%s: %d problems, %v: %v", name, len(found), err, found)
			continue
		}
		for i, p := range found {
			if c.want[i] != "" && p.Message != c.want[i] {
				t.Errorf("%s: problem %d is %q, want %q", name, i, p.Message, c.want[i])
			}
		}
	}
}
