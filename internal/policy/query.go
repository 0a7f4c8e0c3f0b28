package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// Grant says that calls of a tool are allowed for a role in a lane, and what each such call needs.
type Grant struct {
	Role              string   `json:"role"`
	Lane              string   `json:"lane"`
	Tool              string   `json:"tool"`
	Version           string   `json:"version"`
	Writes            bool     `json:"writes,omitzero"`
	RequiredScopeKeys []string `json:"required_scope_keys,omitzero"`
	ProhibitedFlags   []string `json:"prohibited_flags,omitzero"` // names of arguments
	RequiredScopes    []string `json:"required_scopes,omitzero"`  // scopes that the token of the caller needs
	RunStates         []string `json:"allowed_run_states"`
	Runs              string   `json:"runs,omitzero"` // of the lane; "": each call must name its run
}

// WhoCan returns the grants of a tool, sorted by role and lane. The list is empty if nobody can call it.
func (s *Snapshot) WhoCan(toolID string) (all []Grant) {
	for _, role := range slices.Sorted(maps.Keys(s.roles)) {
		all = append(all, s.grants(role, toolID)...)
	}
	return all
}

// WhyNobody returns why nobody can call a registered tool that the deployment has.
func (s *Snapshot) WhyNobody(toolID string) string {
	v, t := s.view(Question{Tool: toolID}), s.tools[toolID]
	if t.open.meets(t.open) {
		return "no role may use a lane that allows it"
	}
	if why := v.usable(); why.code != "" {
		return fmt.Sprintf("%s (%s)", v.explainUnusable(why.rule), why.rule)
	}
	return "no lane allows it: the lane, the entry and the manifest must, and a lane with write: true if it writes"
}

// Can returns the grants of a role, sorted by tool and lane.
func (s *Snapshot) Can(role string) (all []Grant) {
	for _, id := range s.Visible(role, "") {
		all = append(all, s.grants(role, id)...)
	}
	return all
}

func (s *Snapshot) grants(role, toolID string) (all []Grant) {
	t, of := s.tools[toolID], s.roles[role]
	if t == nil || of == nil {
		return nil
	}
	for _, b := range t.builds {
		if !b.Enabled || !b.inRange {
			continue
		}
		for index := range of.both(b.lanes) {
			all = append(all, s.grant(role, s.lanes[s.laneIDs[index]], b))
		}
	}
	slices.SortStableFunc(all, func(a, b Grant) int { return cmp.Compare(a.Lane, b.Lane) })
	return all
}

func (s *Snapshot) grant(role string, l *lane, b *build) Grant {
	g := Grant{
		Role: role, Lane: l.ID, Tool: b.manifest.ToolID, Version: b.manifest.Semver, Writes: b.Writes, Runs: l.Runs,
		RequiredScopeKeys: union(l.RequiredScopeKeys, b.RequiredScopeKeys),
		ProhibitedFlags:   union(l.flags, b.ProhibitedFlags),
		RequiredScopes:    slices.Sorted(slices.Values(b.manifest.Security.RequiredScopes)),
	}
	for _, state := range l.AllowedRunStates {
		g.RunStates = append(g.RunStates, string(state))
	}
	return g
}

// Visible returns the ids of the tools of which at least one call could be allowed for a role, sorted. If lane is not
// "", the call must be in that lane. It does not look at the schemas of tools.
func (s *Snapshot) Visible(role, lane string) (ids []string) {
	for id := range s.tools {
		if s.Shows(role, lane, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Shows reports whether a tool is one of [Snapshot.Visible].
func (s *Snapshot) Shows(role, lane, toolID string) bool {
	t, of := s.tools[toolID], s.roles[role]
	switch {
	case t == nil || of == nil:
		return false
	case lane == "":
		return of.meets(t.open)
	}
	l := s.lanes[lane]
	return l != nil && of.has(l.index) && t.open.has(l.index)
}

// LaneFor returns the lane of a call that names none: fallback, unless it does not allow the tool for the role, and
// exactly one lane does. Lanes of a disabled tool, or of versions that the entry excludes, count if no other does. Then
// the call is denied because of the tool, and not because of a lane.
func (s *Snapshot) LaneFor(role, toolID, fallback string) string {
	t, of := s.tools[toolID], s.roles[role]
	if t == nil || of == nil {
		return fallback
	}
	lanes := t.open
	if !of.meets(lanes) {
		lanes = t.lanes
	}
	only := ""
	for index := range of.both(lanes) {
		if only != "" {
			return fallback
		}
		only = s.laneIDs[index]
	}
	return cmp.Or(only, fallback)
}

// Roles returns the names of all roles, sorted.
func (s *Snapshot) Roles() []string { return slices.Sorted(maps.Keys(s.roles)) }

// Tools returns the ids of all registered tools, sorted.
func (s *Snapshot) Tools() []string { return slices.Sorted(maps.Keys(s.tools)) }

// Lane returns a lane.
func (s *Snapshot) Lane(id string) (Lane, bool) {
	l := s.lanes[id]
	if l == nil {
		return Lane{}, false
	}
	return l.Lane, true
}

// Rules returns the rules of a version of a tool; "" is the first version. ok is false if the tool is not registered,
// or the deployment does not have that version.
func (s *Snapshot) Rules(toolID, version string) (r Rules, ok bool) {
	v := s.view(Question{Tool: toolID, Version: version})
	if v.build == nil {
		return r, false
	}
	return v.build.Rules, true
}

// Run has the facts of a run that a decision depends on.
type Run struct {
	Tenant string
	Actors []string // actors whose calls may belong to the run, and those of their sub-actors
	Role   string   // role of its calls; "" is any
	Lanes  []string // lanes of its calls; none is any
	State  RunState
	Pinned envelope.PolicyVersions // of the policy set that the run was started with
}

// of reports whether the run belongs to an actor of a tenant.
func (r *Run) of(tenant, actor string) bool {
	return r.Tenant == tenant && slices.ContainsFunc(r.Actors, func(listed string) bool {
		return listed == actor || auth.IsSub(actor, listed)
	})
}

// Including returns the run with an actor among its actors. It does not change r.
func (r *Run) Including(actor string) *Run {
	if r.of(r.Tenant, actor) {
		return r
	}
	with := *r
	with.Actors = append(slices.Clone(r.Actors), actor)
	return &with
}

// has reports whether calls of a role and in a lane may belong to the run.
func (r *Run) has(role, lane string) bool {
	return (r.Role == "" || r.Role == role) && (len(r.Lanes) == 0 || slices.Contains(r.Lanes, lane))
}

// implicitPrefix begins the ids of implicit runs, and of no other run.
const implicitPrefix = "implicit-"

// ImplicitRunID returns the id of the implicit run of a caller under a policy. The caller is the root family of its
// token or, without tokens, its actor; the other one is "".
func ImplicitRunID(tenant, family, actor string, v envelope.PolicyVersions) string {
	const typicalSize = 384 // so that calls that name no run cost little
	names := make([]byte, 0, typicalSize)
	for _, name := range [...]string{v.Roles, v.Lanes, v.ToolRegistry, family, actor, tenant} {
		names = append(append(names, name...), 0)
	}
	sum := sha256.Sum256(names)
	id := append(make([]byte, 0, len(implicitPrefix)+len(sum)), implicitPrefix...)
	return string(hex.AppendEncode(id, sum[:len(sum)/2]))
}

// IsImplicitRunID reports whether an id is one of [ImplicitRunID].
func IsImplicitRunID(id string) bool { return strings.HasPrefix(id, implicitPrefix) }

// StartsRun reports whether the call belongs to an implicit run: it names no run, its lane has implicit runs, and its
// role may use the lane.
func (s *Snapshot) StartsRun(q Question) bool {
	v := s.view(q)
	return q.RunID == "" && v.lane != nil && v.lane.Runs == RunsImplicit && v.inLane().code == ""
}

// CheckRun returns an error if the policy does not allow a run for a role and lanes. "" is any role, and no lanes are
// all.
func (s *Snapshot) CheckRun(role string, lanes []string) error {
	of, known := s.roles[role]
	if role != "" && !known {
		return fmt.Errorf("the policy has no role %q", clip(role))
	}
	for _, id := range lanes {
		switch l := s.lanes[id]; {
		case l == nil:
			return fmt.Errorf("the policy has no lane %q", clip(id))
		case known && !of.has(l.index):
			return fmt.Errorf("the role %q may not use the lane %q", role, id)
		}
	}
	return nil
}

// CheckLock returns an error if the policy does not have a tool or a lane. It ignores the one that is "".
func (s *Snapshot) CheckLock(toolID, lane string) error {
	switch {
	case toolID != "" && s.tools[toolID] == nil:
		return fmt.Errorf("the policy in force has no tool %q", clip(toolID))
	case lane != "" && s.lanes[lane] == nil:
		return fmt.Errorf("the policy in force has no lane %q", clip(lane))
	}
	return nil
}
