package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// maxNamedLanes is how many lanes a refusal names.
const maxNamedLanes = 8

// fixRole is the fix of the refusal of a role that the policy lacks. It names no role, which the caller may not know.
const fixRole = "call in a role that the policy has, or ask an operator for a credential of one: " +
	"`toolbus credentials issue --role-id`"

// fixBound is the fix where another lane would do, and the token is for this one alone.
const fixBound = "ask an operator for a credential for another lane, or for none: that of the call is for this lane " +
	"alone"

// fixDisabled is the fix of a tool that its entry disables, and its manifest does not. The caller may know the tool.
const fixDisabled = "use another tool, or ask an operator to enable it: its entry in %s has enabled: false"

// Refusal returns the answer to a call that d denies. A tool that the caller may not know is answered as one that
// does not exist, and only tools that the caller may know are suggested. If another lane of the role allows the tool,
// the answer names it.
func (s *Snapshot) Refusal(q Question, d Decision) *envelope.Error {
	v := s.view(q)
	if d.Code == envelope.CodeToolUnknown || v.laneOfNobody(d.Reason) {
		return envelope.NoTool(q.Tool, s.Visible(q.Role, ""))
	}
	own, near := v.nearLane(d.Reason)
	refusal := envelope.NewError(d.Code, v.explain(d.Reason)+near)
	switch {
	case d.Code == envelope.CodeVersion:
		refusal = refusal.WithFix("tell the operator: the policy has to allow the version, or dispatchers load another one")
	case d.Rule.ofNoRole():
		refusal = refusal.WithFix(fixRole)
	case d.Rule.Field == fieldEnabled && v.build.manifest.Callable():
		refusal = refusal.WithFix(fmt.Sprintf(fixDisabled, ToolRegistryFile))
	}
	lanes := v.otherLanes(d.Reason)
	switch {
	case q.LaneBound && len(lanes)+len(own) > 0:
		refusal = refusal.WithFix(fixBound)
	case len(lanes) > 0:
		refusal = refusal.WithFix("call it in another lane of the role that allows the tool (--lane of toolbus call): " +
			some(lanes))
	case len(own) > 0:
		refusal = refusal.WithFix("call in a lane of the role (--lane of toolbus call): " + some(own))
	}
	return refusal
}

// laneOfNobody reports whether the role lacks the lane only because the call names none and no lane of the role has a
// call of the tool: an answer about a lane would mislead its caller.
func (v *view) laneOfNobody(r Reason) bool {
	return v.Laneless && r.Rule.Of == ofRoles && r.Rule.Field == fieldLanes && v.hidden()
}

// ofNoRole reports whether the rule is that the policy has no such role.
func (r Rule) ofNoRole() bool { return r.Of == ofRoles && r.Field == "" }

// nearLane returns the lanes of the role if it lacks the lane of the call, and asks whether the most similar one was
// meant. It names no lanes of other roles, which the caller may not know.
func (v *view) nearLane(r Reason) (own []string, near string) {
	if r.Code != envelope.CodeLane || r.Rule.Of != ofRoles || v.role == nil {
		return nil, ""
	}
	for lane := range v.role.both(v.role) {
		own = append(own, v.s.laneIDs[lane])
	}
	if name, ok := envelope.Nearest(v.Lane, own); ok {
		near = fmt.Sprintf("; did you mean %q?", name)
	}
	return own, near
}

// some lists names, and not all if they are many.
func some(names []string) string {
	if len(names) > maxNamedLanes {
		names = append(slices.Clone(names[:maxNamedLanes]), "…")
	}
	return strings.Join(names, ", ")
}

// otherLanes returns the other lanes of the role in which the tool can be called, if the lane was the reason of the
// denial. It leaves out a lane that prohibits the same argument.
func (v *view) otherLanes(r Reason) (ids []string) {
	ofLane := r.Code == envelope.CodeLane || r.Code == envelope.CodeToolInLane ||
		r.Code == envelope.CodeProhibited && r.Rule.Of == ofLanes
	if !ofLane || v.role == nil || v.tool == nil {
		return nil
	}
	for lane := range v.role.both(v.tool.open) {
		if id := v.s.laneIDs[lane]; id != v.Lane && !slices.Contains(v.s.lanes[id].flags, r.Rule.Flag) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Explain says in one sentence why a call was denied: for the caller with d.Reason, for operators with d.True.
func (s *Snapshot) Explain(q Question, r Reason) string {
	v := s.view(q)
	return v.explain(r)
}

func (v *view) explain(r Reason) string {
	switch r.Code {
	case envelope.CodeRunUnknown:
		if r.Rule.Field == fieldRuns {
			return fmt.Sprintf("the call names no run, and the lane %q starts none", r.Rule.ID)
		}
		return "the run does not exist"
	case envelope.CodeRunState:
		return fmt.Sprintf("the run is %s", v.Run.State)
	case envelope.CodePolicyVersion:
		return "the run was started with another policy than the one in force now, so its calls are refused"
	case envelope.CodeLane:
		return v.explainLane(r.Rule)
	case envelope.CodeToolUnknown:
		return envelope.NoTool(v.Tool, nil).Message
	case envelope.CodeToolInLane:
		return fmt.Sprintf("the tool %q may not be called in the lane %q", clip(v.Tool), clip(v.Lane))
	case envelope.CodeScopeKey:
		keys := union(v.lane.RequiredScopeKeys, v.build.RequiredScopeKeys)
		return "context.scope needs " + strings.Join(v.missing(keys), ", ")
	case envelope.CodeProhibited:
		return v.explainProhibited(r.Rule)
	}
	return v.explainUnusable(r.Rule)
}

// explainLane says the same of a lane of others and of one that does not exist.
func (v *view) explainLane(r Rule) string {
	switch {
	case r.Of == ofRun:
		return fmt.Sprintf("the run is not for the role %q in the lane %q", clip(v.Role), clip(v.Lane))
	case r.ofNoRole():
		return fmt.Sprintf("the policy has no role %q", clip(v.Role))
	}
	says := fmt.Sprintf("the role %q has no lane %q", clip(v.Role), clip(v.Lane))
	if v.Laneless {
		says = "the call names no lane, and " + says
	}
	return says
}

func (v *view) explainProhibited(r Rule) string {
	kind, _ := splitFlag(r.Flag)
	switch {
	case r.Field == fieldWrite:
		return fmt.Sprintf("the tool %q writes, and the lane %q is not for writes", v.Tool, r.ID)
	case kind != flagArgument:
		return fmt.Sprintf("the lane %q prohibits %s, which the tool %q has", r.ID, r.Flag, v.Tool)
	}
	return fmt.Sprintf("the argument %q is prohibited", r.Flag)
}

func (v *view) explainUnusable(r Rule) string {
	switch m := v.build.manifest; {
	case r.Field == fieldVersions:
		return fmt.Sprintf("version %s of %s is not in %q", m.Semver, v.Tool, v.tool.entry.Versions)
	case !m.Callable(): // then `policy init` has written enabled: false, too
		return fmt.Sprintf("tool %q is %s", v.Tool, m.Status)
	}
	return fmt.Sprintf("the policy disables the tool %q", v.Tool)
}
