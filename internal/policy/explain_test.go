package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// recorded returns the facts of a decision that the audit record holds.
func recorded(d policy.Decision) policy.Recorded {
	if d.Allowed {
		return policy.Recorded{Allowed: true}
	}
	return policy.Recorded{Step: d.True.Step, Rule: d.True.Rule.String(), Code: d.True.Code}
}

// asRecorded returns what the record has of a question: no run, no scope and no arguments.
func asRecorded(q policy.Question) policy.Question {
	q.Run, q.Scope, q.Input = nil, nil, nil
	return q
}

// A decision of a random policy never differs when it is repeated without what the record lacks. Another denial than
// the recorded one, or a call that the policy allows, always differs if its step is repeated.
func TestRepeatRandomDecisions(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	g := generate(r, 5, 12, 30)
	for i := range g.lanes {
		g.lanes[i].AllowedTools = []string{"*"}
	}
	for i := range g.roles {
		g.roles[i].AllowedLanes = []string{"lane0", "lane1", fmt.Sprintf("lane%d", 2+2*i)}
	}
	s := compiled(t, g.documents(), g.tools...)
	results := map[string]int{}
	for range 20_000 {
		q := ask(s, fmt.Sprintf("role%d", r.IntN(6)), fmt.Sprintf("lane%d", r.IntN(13)), fmt.Sprintf("t%d", r.IntN(31)))
		if r.IntN(2) == 0 {
			q.Scope = nil
		}
		if r.IntN(2) == 0 {
			q.Input = jsontext.Value(`{"force":true}`)
		}
		was := recorded(s.Decide(q))
		again := s.Repeat(asRecorded(q), was, "")
		if results[again.Result]++; again.Result == policy.ResultDiffers {
			t.Fatalf("%+v: recorded %+v, repeated %+v", q, was, again)
		}
		if again.Result != policy.ResultSame || was.Allowed {
			continue
		}
		was.Rule += "x"
		if again := s.Repeat(asRecorded(q), was, ""); again.Result != policy.ResultDiffers {
			t.Fatalf("%+v: recorded %+v, repeated %+v", q, was, again)
		}
		if again := s.Repeat(asRecorded(q), policy.Recorded{Allowed: true}, ""); again.Result != policy.ResultDiffers {
			t.Fatalf("%+v: recorded as allowed, repeated %+v", q, again)
		}
	}
	if results[policy.ResultSame] == 0 || results[policy.ResultNotRepeated] == 0 {
		t.Error(results)
	}
}

// A step whose result depends on what the record lacks is not repeated, and says so.
func TestRepeatSaysWhatItLacks(t *testing.T) {
	lane := policy.Lane{ID: "l", AllowedTools: []string{"echo"}, RequiredScopeKeys: []string{"case_id"},
		ProhibitedFlags: []string{"force"}, Runs: policy.RunsImplicit}
	s := compiled(t, policy.Write([]policy.Role{{ID: "agent", AllowedLanes: []string{"l"}}}, []policy.Lane{lane},
		[]policy.Entry{entry("echo", "l")}), manifest("echo", "1.0.0", call.Pure, nil))
	q := policy.Question{Role: "agent", Lane: "l", Tool: "echo", RunID: "r1"}
	denied := func(step int, rule string, code envelope.Code) policy.Recorded {
		return policy.Recorded{Step: step, Rule: rule, Code: code}
	}
	allowed := policy.Recorded{Allowed: true}
	otherLane := func(q *policy.Question) { q.Lane = "m" }
	forced := func(q *policy.Question) { q.Input = jsontext.Value(`{"force":true}`) }
	plain := func(q *policy.Question) { q.Input = jsontext.Value("{}") }
	same, differs, not := policy.ResultSame, policy.ResultDiffers, policy.ResultNotRepeated
	byScope := denied(policy.StepScope, "lanes[l].required_scope_keys", envelope.CodeScopeKey)
	byLane := denied(policy.StepLane, "roles[agent].allowed_lanes", envelope.CodeLane)
	byFlag := denied(policy.StepProhibit, "lanes[l].prohibited_flags[force]", envelope.CodeProhibited)
	for name, c := range map[string]struct {
		edit   func(q *policy.Question)
		was    policy.Recorded
		build  string
		result string
		lacks  []int // steps that are not repeated
	}{
		"allowed":           {nil, allowed, "", same, []int{3, 7, 8}},
		"with arguments":    {plain, allowed, "", same, []int{3, 7}},
		"other arguments":   {forced, allowed, "", differs, []int{3, 7}},
		"by a flag":         {nil, byFlag, "", not, []int{3, 7, 8}},
		"by this flag":      {forced, byFlag, "", same, []int{3, 7}},
		"by the scope":      {nil, byScope, "", not, []int{3, 7}},
		"by the run":        {nil, denied(3, "run.state", envelope.CodeRunState), "", not, []int{3}},
		"by lanes of a run": {nil, denied(4, "run.lanes", envelope.CodeLane), "", not, []int{3, 4}},
		"by a schema":       {nil, denied(7, "schema", envelope.CodeSchema), "", not, []int{3, 7}},
		"by a lock":         {plain, denied(8, "locks[a]", envelope.CodeLocked), "", not, []int{3, 7, 8}},
		"by its key":        {plain, denied(9, "key", envelope.CodeKeyReused), "", not, []int{3, 7, 9}},
		"by the lane":       {otherLane, byLane, "", same, []int{3}},
		"the lane may":      {nil, byLane, "", differs, []int{3}},
		"without a run":     {func(q *policy.Question) { q.RunID = "" }, allowed, "", same, []int{3, 7, 8}},
		"another build":     {nil, allowed, "the build", same, []int{3, 5, 6, 7, 8}},
		"by its version":    {nil, denied(5, "tools[echo].versions", envelope.CodeVersion), "the build", not, []int{3, 5}},
		"no such tool": {func(q *policy.Question) { q.Tool = "ecno" }, denied(5, "tools[ecno]", envelope.CodeToolUnknown),
			"the build", same, []int{3}},
	} {
		asked := q
		if c.edit != nil {
			c.edit(&asked)
		}
		again := s.Repeat(asked, c.was, c.build)
		var lacks []int
		for _, one := range again.Steps {
			if (one.Result == "not_repeated") != (one.Lacks != "") {
				t.Errorf("%s: %+v", name, one)
			}
			if one.Lacks != "" {
				lacks = append(lacks, one.Step)
			}
		}
		if again.Result != c.result || fmt.Sprint(lacks) != fmt.Sprint(c.lacks) {
			t.Errorf("%s: %s, not repeated %v; want %s, %v", name, again.Result, lacks, c.result, c.lacks)
		}
	}
}
