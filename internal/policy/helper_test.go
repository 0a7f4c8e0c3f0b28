package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// manifest returns the manifest of a tool with further members.
func manifest(id, version string, class call.EffectClass, members map[string]any) *tool.Manifest {
	whole, err := json.Marshal(members)
	if err != nil {
		panic(err) // unreachable: tests have plain values
	}
	m := &tool.Manifest{
		ToolID: id, Semver: version, Class: class, Effect: string(class), Status: tool.StatusActive,
		Description: "Does it.", Whole: whole,
	}
	m.Limits.TimeoutDefaultMS = 15_000
	return m
}

// entry returns an entry that restricts little.
func entry(id string, lanes ...string) policy.Entry {
	return policy.Entry{
		ToolName: id, Description: "d", Enabled: true, Idempotent: true, TimeoutDefaultMS: 1000, AllowedLanes: lanes,
	}
}

// compiled compiles a set.
func compiled(t testing.TB, d policy.Documents, tools ...*tool.Manifest) *policy.Snapshot {
	t.Helper()
	set, err := policy.Parse(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := policy.Compile(set, tools)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running returns an active run of an actor, bound to the policy of a snapshot.
func running(s *policy.Snapshot) *policy.Run {
	return &policy.Run{
		Tenant: "acme", Actors: []string{"agent://a"}, State: policy.RunActive, Pinned: s.Versions(),
	}
}

// generated is a random policy with its tools.
type generated struct {
	roles   []policy.Role
	lanes   []policy.Lane
	entries []policy.Entry
	tools   []*tool.Manifest
}

func (g generated) documents() policy.Documents { return policy.Write(g.roles, g.lanes, g.entries) }

// generate returns a random policy. A lane names at most a tenth of all tools, and a role at most a tenth of all lanes.
func generate(r *rand.Rand, roles, lanes, tools int) (g generated) {
	some := func(n int, name string) (names []string) {
		for range 1 + r.IntN(1+n/10) {
			names = append(names, fmt.Sprintf("%s%d", name, r.IntN(n)))
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	for i := range lanes {
		l := policy.Lane{ID: fmt.Sprintf("lane%d", i), AllowedTools: some(tools, "t"), Write: i == 0 || r.IntN(2) == 0}
		if r.IntN(3) == 0 {
			l.AllowedTools = append(l.AllowedTools, fmt.Sprintf("t%d*", r.IntN(10)))
		}
		if r.IntN(4) == 0 {
			l.ProhibitedFlags = []string{"tag:risky", "force"}
		}
		if r.IntN(4) == 0 {
			l.RequiredScopeKeys = []string{"case_id"}
		}
		g.lanes = append(g.lanes, l)
	}
	for i := range roles {
		g.roles = append(g.roles, policy.Role{ID: fmt.Sprintf("role%d", i), AllowedLanes: some(lanes, "lane")})
	}
	for i := range tools {
		id := fmt.Sprintf("t%d", i)
		class := []call.EffectClass{call.Pure, call.Idempotent}[r.IntN(2)]
		m := manifest(id, fmt.Sprintf("1.%d.0", r.IntN(3)), class, nil)
		m.ReadOnly = r.IntN(4) > 0 // a tool that writes needs a lane, which chance may not give it
		if r.IntN(10) == 0 {
			m.Tags = []string{"risky"}
		}
		e := entry(id, some(lanes, "lane")...)
		e.Enabled, e.WriteTargets = r.IntN(10) > 0, []string{"*"}
		if r.IntN(5) == 0 {
			e.Versions = "~1.1"
		}
		for j := range g.lanes { // so that each tool that writes has a lane
			if l := &g.lanes[j]; m.Class != call.Pure && !m.ReadOnly && l.Write {
				l.AllowedTools = append(l.AllowedTools, id)
				slices.Sort(l.AllowedTools)
				l.AllowedTools = slices.Compact(l.AllowedTools)
				e.AllowedLanes = append(e.AllowedLanes, l.ID)
				break
			}
		}
		slices.Sort(e.AllowedLanes)
		e.AllowedLanes = slices.Compact(e.AllowedLanes)
		g.tools, g.entries = append(g.tools, m), append(g.entries, e)
	}
	return g
}

// ask returns a question of a run whose scope and arguments satisfy each lane and tool of a generated policy.
func ask(s *policy.Snapshot, role, lane, toolID string) policy.Question {
	return policy.Question{
		Role: role, Lane: lane, Tool: toolID, Tenant: "acme", Actor: "agent://a", RunID: "r1", Run: running(s),
		Scope: map[string]string{"case_id": "1"}, Input: jsontext.Value(`{"text":"a"}`),
	}
}
