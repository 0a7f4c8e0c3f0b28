package policy

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Rules combines the entry and the manifest of a tool. An entry restricts a manifest and never widens it,
// and a member that a manifest leaves out restricts nothing.
type Rules struct {
	Enabled           bool // both enable the tool
	Idempotent        bool // both say that a call may be repeated
	TimeoutDefaultMS  int64
	AllowedLanes      []string // lanes of both; each lane must allow the tool, too
	RequiredScopeKeys []string // keys of either
	ProhibitedFlags   []string // arguments of either
	WriteTargets      []string // targets of both, see [call.WriteTargets]
	// Writes is true if the tool is neither pure nor read-only: it needs write targets and a lane with write.
	Writes bool
}

// gatewayFields are the members of a manifest that an entry has, too. A nil list or number is left out.
type gatewayFields struct {
	AllowedLanes      []string `json:"allowed_lanes"`
	RequiredScopeKeys []string `json:"required_scope_keys"`
	ProhibitedFlags   []string `json:"prohibited_flags"`
	WriteTargets      []string `json:"write_targets"`
	Limits            struct {
		TimeoutDefaultMS *int64 `json:"timeout_ms_default"`
	} `json:"limits"`
}

func fieldsOf(m *tool.Manifest) (f gatewayFields, err error) {
	if len(m.Whole) > 0 {
		err = json.Unmarshal(m.Whole, &f)
	}
	return f, err
}

// merge returns the rules of an entry and a manifest with the members f.
func merge(e Entry, m *tool.Manifest, f gatewayFields) Rules {
	r := Rules{
		Enabled: e.Enabled && m.Callable(), Idempotent: e.Idempotent && m.Class != call.SideEffectful,
		TimeoutDefaultMS: e.TimeoutDefaultMS, AllowedLanes: slices.Clone(e.AllowedLanes),
		RequiredScopeKeys: union(e.RequiredScopeKeys, f.RequiredScopeKeys),
		ProhibitedFlags:   union(e.ProhibitedFlags, f.ProhibitedFlags), WriteTargets: slices.Clone(e.WriteTargets),
		Writes: writes(m),
	}
	if f.Limits.TimeoutDefaultMS != nil {
		r.TimeoutDefaultMS = min(r.TimeoutDefaultMS, *f.Limits.TimeoutDefaultMS)
	}
	if f.AllowedLanes != nil {
		r.AllowedLanes = slices.DeleteFunc(r.AllowedLanes, func(lane string) bool {
			return !slices.Contains(f.AllowedLanes, lane)
		})
	}
	if f.WriteTargets != nil {
		r.WriteTargets = commonTargets(e.WriteTargets, f.WriteTargets)
	}
	return r
}

// writes reports whether a tool is neither pure nor read-only.
func writes(m *tool.Manifest) bool { return m.Class != call.Pure && !m.ReadOnly }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// commonTargets returns the targets of a within one of b, and those of b within one of a.
func commonTargets(a, b call.WriteTargets) (both []string) {
	for _, x := range a {
		if b.Allow(x) {
			both = append(both, x)
		}
	}
	for _, y := range b {
		if a.Allow(y) {
			both = append(both, y)
		}
	}
	slices.Sort(both)
	return slices.Compact(both)
}
