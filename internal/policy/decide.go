package policy

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// The steps of the gateway contract (003) that a policy decides. Dispatchers check other things in these steps, too.
const (
	StepRun      = 3 // the run exists, is the caller's, and may have calls now
	StepLane     = 4 // the role may use the lane
	StepTool     = 5 // the tool is registered and enabled
	StepPermit   = 6 // the lane, the entry and the manifest permit the tool in the lane
	StepScope    = 7 // the scope has the required keys
	StepProhibit = 8 // nothing prohibited is asked for
)

// Question asks whether a call is allowed.
type Question struct {
	Role, Lane, Tool string
	Version          string // of the tool; "" is the first one
	Tenant, Actor    string // of the caller
	RunID            string // that the call names; "" if it names none
	Run              *Run   // nil if there is no run of that id, or the call names none and no implicit one was started
	Scope            map[string]string
	Input            jsontext.Value // the arguments, I-JSON
	Laneless         bool           // the call names no lane: Lane is that of the deployment
	LaneBound        bool           // the token of the call is for no other lane
}

// Decision is the answer to a [Question]. If the call is denied, Reason is for the answer to the caller, and True for
// the record. They differ only if the caller may not know the tool: then Reason is that of an unknown tool.
type Decision struct {
	Allowed bool
	Reason
	True     Reason
	Versions envelope.PolicyVersions
}

// Reason is the first step that failed, the rule that it failed by and the error code. If the call
// is allowed, it has only the last step.
type Reason struct {
	Step int // of the gateway contract
	Rule Rule
	Code envelope.Code
}

// Rule names a rule of a policy set, a manifest or a run, for example the allowed_tools of a lane.
type Rule struct{ Of, ID, Field, Flag string }

// String formats r as lanes[billing].prohibited_flags[force], without the parts that are "".
func (r Rule) String() string {
	text := r.Of
	if r.ID != "" {
		text += "[" + r.ID + "]"
	}
	if r.Field != "" {
		text += "." + r.Field
	}
	if r.Flag != "" {
		text += "[" + r.Flag + "]"
	}
	return text
}

// Decide decides all steps in their order: the first one that fails denies the call. A call
// that nothing allows is denied.
func (s *Snapshot) Decide(q Question) (d Decision) {
	v := s.view(q)
	for _, step := range steps() {
		if d = v.decide(step); !d.Allowed {
			break
		}
	}
	return d
}

// Case is a call that is decided step by step, for a dispatcher that checks other things in between. It keeps what the
// snapshot has about the call from step to step. Make one with [Snapshot.Case].
type Case struct{ v view }

// Case returns the case of a call, of which nothing is known yet.
func (s *Snapshot) Case() *Case { return &Case{view{s: s}} }

// Step decides one step of the question q, as it is by now. It does not repeat the steps before, which must have
// allowed the call. It returns nil if the step allows it.
func (c *Case) Step(step int, q *Question) *Decision {
	if v := &c.v; v.Role != q.Role || v.Lane != q.Lane || v.Tool != q.Tool || v.Version != q.Version {
		*v = v.s.view(*q)
	} else {
		v.Question = *q
	}
	if c.v.check(step).code == "" {
		return nil
	}
	d := c.v.decide(step)
	return &d
}

func steps() []int {
	return []int{StepRun, StepLane, StepTool, StepPermit, StepScope, StepProhibit}
}

// denial is why a check failed. The zero value denies nothing.
type denial struct {
	code envelope.Code
	rule Rule
}

// view is a question with what the snapshot has about it. Members are nil if the snapshot does not have them.
type view struct {
	s *Snapshot
	Question
	role  laneSet
	lane  *lane
	tool  *registered
	build *build
}

func (s *Snapshot) view(q Question) view {
	v := view{s: s, Question: q, role: s.roles[q.Role], lane: s.lanes[q.Lane], tool: s.tools[q.Tool]}
	if v.tool == nil {
		return v
	}
	for _, b := range v.tool.builds {
		if q.Version == "" || q.Version == b.manifest.Semver {
			v.build = b
			break
		}
	}
	return v
}

func (v *view) decide(step int) Decision {
	failed := v.check(step)
	d := Decision{Allowed: failed.code == "", Reason: Reason{step, failed.rule, failed.code}, Versions: v.s.versions}
	d.True = d.Reason
	if step == StepTool && failed.code == envelope.CodeToolUnknown {
		d.True = v.truth(d.Reason)
	}
	return d
}

// check returns why a step fails. It denies what was not looked up.
func (v *view) check(step int) denial {
	switch {
	case step == StepRun:
		return v.inRun()
	case step == StepLane:
		return v.inLane()
	case step == StepTool:
		return v.registered()
	case v.lane == nil || v.build == nil:
		return denial{envelope.CodeToolInLane, defaultDeny()}
	case step == StepPermit:
		return v.permitted()
	case step == StepScope:
		return v.scoped()
	case step == StepProhibit:
		if failed := v.lawful(); failed.code != "" {
			return failed
		}
		return v.unflagged()
	}
	return denial{envelope.CodeToolInLane, defaultDeny()}
}

// defaultDeny is the rule that denies what no other rule is about.
func defaultDeny() Rule { return Rule{Of: "default deny"} }

// hidden reports whether no lane of the role can have a call of the tool, so that the caller may not know it.
func (v *view) hidden() bool {
	return v.tool == nil || v.role == nil || !v.role.meets(v.tool.lanes)
}

// truth returns why a tool that the caller may not know is denied: the first check that would fail without that rule.
func (v *view) truth(shown Reason) Reason {
	step, why := StepTool, v.usable()
	for _, next := range []int{StepPermit, StepProhibit} {
		if why.code == "" {
			step, why = next, v.check(next)
		}
	}
	if why.code == "" { // only another version is in no lane of the role
		return shown
	}
	return Reason{step, why.rule, why.code}
}

// knows reports whether the lane allowlist has the tool.
func (l *lane) knows(toolID string) bool {
	return l.tools[toolID] || slices.ContainsFunc(l.prefixes, func(prefix string) bool {
		return len(prefix) <= len(toolID) && toolID[:len(prefix)] == prefix
	})
}
