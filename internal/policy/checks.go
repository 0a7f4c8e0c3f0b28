package policy

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Values of [Rule.Of].
const (
	ofRun       = "run"
	ofRoles     = "roles"
	ofLanes     = "lanes"
	ofTools     = "tools" // of the registry
	ofManifests = "manifests"
)

// Values of [Rule.Field], by their names in the documents.
const (
	fieldLanes     = "allowed_lanes"
	fieldTools     = "allowed_tools"
	fieldEnabled   = "enabled"
	fieldStatus    = "status"
	fieldVersions  = "versions"
	fieldScopeKeys = "required_scope_keys"
	fieldFlags     = "prohibited_flags"
	fieldWrite     = "write"
	fieldRuns      = "runs"
)

// inRun checks the run of the call. A run of somebody else is denied as one that does not exist. A call without a run
// passes if its lane is unknown, or has implicit runs, but not for the role: the next step denies it.
func (v *view) inRun() denial {
	if v.Run == nil && v.RunID == "" {
		return v.withoutRun()
	}
	states := []RunState{RunActive}
	if v.lane != nil {
		states = v.lane.AllowedRunStates
	}
	switch r := v.Run; {
	case r == nil:
		return denial{envelope.CodeRunUnknown, Rule{Of: ofRun}}
	case !r.of(v.Tenant, v.Actor):
		return denial{envelope.CodeRunUnknown, Rule{Of: ofRun, Field: "actors"}}
	case !slices.Contains(states, r.State):
		return denial{envelope.CodeRunState, Rule{Of: ofRun, Field: "state"}}
	case r.Pinned != v.s.versions:
		return denial{envelope.CodePolicyVersion, Rule{Of: ofRun, Field: "policy_versions"}}
	}
	return denial{}
}

func (v *view) withoutRun() denial {
	switch {
	case v.lane == nil, v.lane.Runs == RunsImplicit && v.inLane().code != "":
		return denial{}
	}
	return denial{envelope.CodeRunUnknown, Rule{Of: ofLanes, ID: v.lane.ID, Field: fieldRuns}}
}

func (v *view) inLane() denial {
	switch {
	case v.role == nil:
		return denial{envelope.CodeLane, Rule{Of: ofRoles, ID: clip(v.Role)}}
	case v.lane == nil || !v.role.has(v.lane.index):
		return denial{envelope.CodeLane, Rule{Of: ofRoles, ID: v.Role, Field: fieldLanes}}
	case v.Run != nil && !v.Run.has(v.Role, v.Lane):
		return denial{envelope.CodeLane, Rule{Of: ofRun, Field: "lanes"}}
	}
	return denial{}
}

// clip shortens a name that the caller chose.
func clip(name string) string { return ijson.Clip(name, envelope.MaxToolID) }

// registered checks that the tool is registered, enabled and in the range of versions. A tool that the caller may not
// know is denied as one that is not registered.
func (v *view) registered() denial {
	failed := v.usable()
	if failed.code != envelope.CodeToolUnknown && v.hidden() {
		return denial{envelope.CodeToolUnknown, Rule{Of: ofRoles, ID: v.Role, Field: fieldLanes}}
	}
	return failed
}

func (v *view) usable() denial {
	switch {
	case v.tool == nil:
		return denial{envelope.CodeToolUnknown, Rule{Of: ofTools, ID: clip(v.Tool)}}
	case v.build == nil:
		return denial{envelope.CodeToolUnknown, Rule{Of: ofManifests, ID: v.Tool}}
	case !v.tool.entry.Enabled:
		return denial{envelope.CodeToolDisabled, Rule{Of: ofTools, ID: v.Tool, Field: fieldEnabled}}
	case !v.build.Enabled:
		return denial{envelope.CodeToolDisabled, Rule{Of: ofManifests, ID: v.Tool, Field: fieldStatus}}
	case !v.build.inRange:
		return denial{envelope.CodeVersion, Rule{Of: ofTools, ID: v.Tool, Field: fieldVersions}}
	}
	return denial{}
}

// permitted checks that the lane, the entry and the manifest permit the tool in the lane.
func (v *view) permitted() denial {
	id, lane, declared := v.build.manifest.ToolID, v.lane.ID, v.build.declared.AllowedLanes
	switch {
	case !v.lane.knows(id):
		return denial{envelope.CodeToolInLane, Rule{Of: ofLanes, ID: lane, Field: fieldTools}}
	case !slices.Contains(v.tool.entry.AllowedLanes, lane):
		return denial{envelope.CodeToolInLane, Rule{Of: ofTools, ID: id, Field: fieldLanes}}
	case declared != nil && !slices.Contains(declared, lane):
		return denial{envelope.CodeToolInLane, Rule{Of: ofManifests, ID: id, Field: fieldLanes}}
	}
	return denial{}
}

// scoped checks that the scope has each required key, with a value.
func (v *view) scoped() denial {
	if len(v.missing(v.lane.RequiredScopeKeys)) > 0 {
		return denial{envelope.CodeScopeKey, Rule{Of: ofLanes, ID: v.lane.ID, Field: fieldScopeKeys}}
	}
	if len(v.missing(v.build.RequiredScopeKeys)) > 0 {
		return denial{envelope.CodeScopeKey, Rule{Of: ofTools, ID: v.Tool, Field: fieldScopeKeys}}
	}
	return denial{}
}

// missing returns the keys that the scope of the call lacks.
func (v *view) missing(keys []string) (all []string) {
	for _, key := range keys {
		if v.Scope[key] == "" {
			all = append(all, key)
		}
	}
	return all
}

// lawful checks the flags of the lane that forbid a tool, and that a tool that writes is in a lane for writes.
func (v *view) lawful() denial {
	for _, flag := range v.lane.ProhibitedFlags {
		if v.build.matches(flag) {
			return denial{envelope.CodeProhibited, Rule{ofLanes, v.lane.ID, fieldFlags, flag}}
		}
	}
	if v.build.Writes && !v.lane.Write {
		return denial{envelope.CodeProhibited, Rule{Of: ofLanes, ID: v.lane.ID, Field: fieldWrite}}
	}
	return denial{}
}

// matches reports whether a flag names a tag or the effect of the build.
func (b *build) matches(flag string) bool {
	switch kind, name := splitFlag(flag); kind {
	case flagTag:
		return slices.Contains(b.manifest.Tags, name)
	case flagEffect:
		return name == b.manifest.CanonicalEffect() || name == string(b.manifest.Class)
	}
	return false
}

// unflagged checks that the arguments request no prohibited flag.
func (v *view) unflagged() denial {
	if len(v.lane.flags)+len(v.build.ProhibitedFlags) == 0 {
		return denial{}
	}
	for _, m := range ijson.Members(v.Input) {
		name := string(m.Plain())
		rule := Rule{ofLanes, v.lane.ID, fieldFlags, flagLike(v.lane.flags, name)}
		if rule.Flag == "" {
			rule = Rule{ofTools, v.Tool, fieldFlags, flagLike(v.build.ProhibitedFlags, name)}
		}
		if rule.Flag != "" && (rule.Flag != name || requested(m.Value)) {
			return denial{envelope.CodeProhibited, rule}
		}
	}
	return denial{}
}

// flagLike returns the flag that an argument requests, or "". A tool may take a name for another one that differs
// from it by case alone, as Go's encoding/json does.
func flagLike(flags []string, name string) string {
	if slices.Contains(flags, name) {
		return name
	}
	if i := slices.IndexFunc(flags, func(flag string) bool { return strings.EqualFold(flag, name) }); i >= 0 {
		return flags[i]
	}
	return ""
}

// requested reports whether the value of a flag is other than false, null, "", [] and {}.
func requested(value jsontext.Value) bool {
	if kind := value.Kind(); kind == '[' || kind == '{' {
		next := ijson.SkipSpace(value, 1)
		return next < len(value) && value[next] != ']' && value[next] != '}'
	}
	text := string(value)
	return text != "false" && text != "null" && text != `""`
}
