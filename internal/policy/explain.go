package policy

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Recorded is a decision as the audit record has it.
type Recorded struct {
	Allowed bool          `json:"allowed"`
	Step    int           `json:"step,omitzero"` // of a denial, as are the next two
	Rule    string        `json:"rule,omitzero"`
	Code    envelope.Code `json:"error_code,omitzero"`
	// Facts means that the record has what the decision depended on, and that the question has it from [Facts.Recall].
	Facts bool `json:"-"`
}

// Repetition is a recorded decision that was repeated step by step.
type Repetition struct {
	Result string         `json:"result"`
	Steps  []RepeatedStep `json:"steps"`
}

// Values of [Repetition.Result].
const (
	ResultSame        = "same"         // each step that was repeated ended as recorded
	ResultDiffers     = "differs"      // a step ended otherwise
	ResultNotRepeated = "not_repeated" // the step that denied the call could not be repeated
)

// RepeatedStep is the result of one step: "allowed", "denied" or "not_repeated".
type RepeatedStep struct {
	Step   int           `json:"step"`
	Result string        `json:"result"`
	Rule   string        `json:"rule,omitzero"`
	Code   envelope.Code `json:"error_code,omitzero"`
	Lacks  string        `json:"lacks,omitzero"` // what is not known of the call, so that the step was not repeated
}

// Values of [RepeatedStep.Result].
const (
	stepAllowed     = "allowed"
	stepDenied      = "denied"
	stepNotRepeated = "not_repeated"
)

// Repeat decides a recorded call again, with what its record has. The record of an allowed call has neither the scope
// nor the state of the run. A step that depends on what q lacks is not repeated. unknownBuild says why the build of the
// tool that the call was for is not known; "" means that s has it.
func (s *Snapshot) Repeat(q Question, was Recorded, unknownBuild string) (r Repetition) {
	v := s.view(q)
	for _, step := range steps() {
		if !was.Allowed && (step > was.Step || step == was.Step && !ofPolicy(was.Rule)) {
			break
		}
		one := v.repeat(step, was, unknownBuild)
		r.Steps = append(r.Steps, one)
		if one.Result == stepDenied {
			r.Result = ResultDiffers
			if !was.Allowed && one.matches(was) {
				r.Result = ResultSame
			}
			return r
		}
	}
	if !was.Allowed && !ofPolicy(was.Rule) { // another check denied the call, such as a safety lock
		r.Steps = append(r.Steps, RepeatedStep{Step: was.Step, Result: stepNotRepeated,
			Lacks: fmt.Sprintf(lacksRule, cmp.Or(was.Rule, string(was.Code)))})
	}
	r.Result = r.undenied(was)
	return r
}

// undenied returns the result of a repetition in which no step denies the call.
func (r Repetition) undenied(was Recorded) string {
	if was.Allowed {
		return ResultSame
	}
	for _, one := range r.Steps {
		if one.Result == stepNotRepeated && (one.Step == was.Step || one.Step == StepTool) {
			return ResultNotRepeated
		}
	}
	return ResultDiffers
}

// ofPolicy reports whether a rule of a record is one of a policy, and not the name of another check of dispatchers.
func ofPolicy(rule string) bool {
	for _, of := range []string{ofRun + ".", ofRoles + "[", ofLanes + "[", ofTools + "[", ofManifests + "["} {
		if strings.HasPrefix(rule, of) {
			return true
		}
	}
	return rule == ofRun || rule == defaultDeny().Of
}

// matches reports whether a step that denies the call is the recorded one.
func (one RepeatedStep) matches(was Recorded) bool {
	return one.Step == was.Step && one.Rule == was.Rule && one.Code == was.Code
}

// repeat decides one step again. A denial has its true reason, as the record does.
func (v *view) repeat(step int, was Recorded, unknownBuild string) RepeatedStep {
	d := v.decide(step)
	if lacks := v.lacks(step, d, was, unknownBuild); lacks != "" {
		return RepeatedStep{Step: step, Result: stepNotRepeated, Lacks: lacks}
	}
	if d.Allowed {
		return RepeatedStep{Step: step, Result: stepAllowed}
	}
	return RepeatedStep{Step: d.True.Step, Result: stepDenied, Rule: d.True.Rule.String(), Code: d.True.Code}
}

// Values of [RepeatedStep.Lacks], with the build of the tool.
const (
	lacksRun       = "the run as it was: the record has only its id"
	lacksScope     = "the scope keys of the call: the record does not have them"
	lacksArguments = "the arguments of the call: the record has only their SHA-256"
	lacksRule      = "a rule of the policy: %s denied the call"
)

// lacks returns what must be known for the decision d of a step, and is not.
func (v *view) lacks(step int, d Decision, was Recorded, unknownBuild string) string {
	switch {
	case was.Facts && (step == StepRun || step == StepLane):
		return ""
	case step == StepRun && (v.RunID != "" || !d.Allowed && was.Step != StepRun), // or its build checked no runs
		step == StepLane && d.Allowed && strings.HasPrefix(was.Rule, ofRun):
		return lacksRun
	case step == StepRun || step == StepLane || v.tool == nil && step == StepTool:
		return ""
	case unknownBuild != "":
		return unknownBuild
	case step == StepScope && !d.Allowed && !was.Facts:
		return lacksScope
	case v.Input == nil && v.dependsOnArguments(step, d, was):
		return lacksArguments
	}
	return ""
}

// dependsOnArguments reports whether other arguments than none could end a step otherwise than by d.
func (v *view) dependsOnArguments(step int, d Decision, was Recorded) bool {
	switch step {
	case StepTool: // the true reason of a tool that the caller may not know may be one of its arguments
		return !d.Allowed && d.True != d.Reason && was.Step == StepProhibit && d.True.Step != StepProhibit
	case StepProhibit:
		return d.Allowed && v.lane != nil && v.build != nil && len(v.lane.flags)+len(v.build.ProhibitedFlags) > 0
	}
	return false
}
