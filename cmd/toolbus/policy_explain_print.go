package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// explained is a recorded decision with its repetition, as `toolbus policy explain` prints it.
type explained struct {
	Time     time.Time               `json:"timestamp_utc"`
	Event    audit.Event             `json:"event"`
	EventID  string                  `json:"audit_event_id"`
	Actor    string                  `json:"actor_id"`
	Tool     string                  `json:"tool_name"`
	CallID   string                  `json:"call_id,omitzero"`
	RoleID   string                  `json:"role_id"`
	RunID    string                  `json:"run_id"`
	LaneID   string                  `json:"lane_id"`
	Policies envelope.PolicyVersions `json:"policy_versions"`
	Basis    *audit.Basis            `json:"decided_on,omitzero"`
	Recorded policy.Recorded         `json:"recorded"`
	policy.Repetition
	Notes []string `json:"notes,omitzero"`
}

func newExplained(r *audit.Record) *explained {
	e := &explained{
		Time: r.Timestamp, Event: r.Event, EventID: r.EventID, Actor: r.Actor, Tool: r.ToolName, CallID: r.CallID,
		RoleID: r.RoleID, LaneID: r.LaneID, Policies: r.Policies,
		RunID: r.RunID, Basis: r.Basis, Recorded: policy.Recorded{Allowed: true},
	}
	if r.Event == audit.ToolDenied {
		e.Recorded = policy.Recorded{Step: r.Step, Rule: r.Rule, Code: r.Code}
	}
	if r.LogSeq > 0 && e.EventID == "" {
		e.EventID = r.Position().EventID()
	}
	return e
}

// fail notes why the decision could not be repeated at all.
func (e *explained) fail(why string) {
	e.Result, e.Notes = policy.ResultNotRepeated, append(e.Notes, why)
}

func (o *output) printExplained(e *explained) error {
	if e.Steps == nil {
		e.Steps = []policy.RepeatedStep{}
	}
	if err := o.print(e, e.write); err != nil {
		return err
	}
	switch e.Result {
	case policy.ResultSame:
		return nil
	case policy.ResultDiffers:
		return exitError(exitDiffers)
	}
	return exitError(exitNotRepeated)
}

func (e *explained) write(w io.Writer) error {
	was := "allowed"
	if !e.Recorded.Allowed {
		was = deniedBy(e.Recorded.Step, e.Recorded.Rule, e.Recorded.Code)
	}
	line := func(format string, args ...any) { fmt.Fprintln(w, cli.EscapeCell(fmt.Sprintf(format, args...))) }
	line("%s: %s called %s as %s in the lane %s", e.Time.UTC().Format(time.RFC3339), e.Actor, e.Tool, orDash(e.RoleID),
		orDash(e.LaneID))
	line("recorded: %s (%s)", was, e.EventID)
	line("set: roles %s, lanes %s, tool registry %s", orDash(shortened(e.Policies.Roles)),
		orDash(shortened(e.Policies.Lanes)), orDash(shortened(e.Policies.ToolRegistry)))
	if e.Basis != nil {
		line("run: %s", runSays(e.RunID, e.Basis.Run))
		line("scope keys of those required: %s", listed(slices.Sorted(maps.Keys(e.Basis.Scope))))
	}
	for _, s := range e.Steps {
		switch {
		case s.Lacks != "":
			line("  step %d: not repeated, for lack of %s", s.Step, s.Lacks)
		case s.Rule != "":
			line("  %s", deniedBy(s.Step, s.Rule, s.Code))
		default:
			line("  step %d: allowed", s.Step)
		}
	}
	for _, note := range e.Notes {
		line("note: %s", note)
	}
	_, err := fmt.Fprintln(w, e.verdict())
	return err
}

func (e *explained) verdict() string {
	left := 0
	for _, s := range e.Steps {
		if s.Lacks != "" {
			left++
		}
	}
	switch {
	case e.Result == policy.ResultDiffers:
		return "DIFFERENT: the set does not decide as recorded"
	case e.Result == policy.ResultNotRepeated:
		return "not repeated: the step that decided was not checked"
	case left > 0:
		return "the same, as far as it was repeated: " + plural(left, "step was not", "steps were not")
	}
	return "the same: each step ends as recorded"
}

func deniedBy(step int, rule string, code envelope.Code) string {
	return fmt.Sprintf("step %d: denied by %s (%s)", step, rule, code)
}

// runSays says how a run was when a dispatcher decided by it; nil means that it did not exist.
func runSays(id string, was *audit.RunBasis) string {
	switch {
	case id == "":
		return "-"
	case was == nil:
		return id + " (did not exist)"
	case was.Foreign:
		return id + " (of another tenant or actor)"
	case was.Unfit:
		return id + " (" + was.State + ", for another role or lane)"
	}
	return id + " (" + was.State + ")"
}
