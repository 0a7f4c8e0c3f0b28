package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// Each decision of a random policy is repeated by its facts, whatever the run and the scope of the call were. Another
// state of the run, or a scope without its keys, makes the difference that it made.
func TestRepeatByFacts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	g := generate(r, 5, 12, 30)
	for i := range g.lanes {
		g.lanes[i].AllowedTools = []string{"*"}
	}
	for i := range g.roles {
		g.roles[i].AllowedLanes = []string{"lane0", "lane1", fmt.Sprintf("lane%d", 2+2*i)}
	}
	s := compiled(t, g.documents(), g.tools...)
	steps := map[string]int{}
	for range 20_000 {
		q := ask(s, fmt.Sprintf("role%d", r.IntN(6)), fmt.Sprintf("lane%d", r.IntN(13)), fmt.Sprintf("t%d", r.IntN(31)))
		vary(r, &q)
		was := recorded(s.Decide(q))
		was.Facts = true
		f := s.Facts(q)
		for key := range f.Scope {
			if f.Scope[key] != "" {
				f.Scope[key] = "a hash"
			}
		}
		kept := q
		kept.Run, kept.Scope = nil, nil
		again := s.Repeat(f.Recall(kept), was, "")
		if again.Result != policy.ResultSame {
			t.Fatalf("%+v, run %+v: recorded %+v, repeated %+v", q, q.Run, was, again)
		}
		if steps[was.Rule]++; was.Rule == "run.state" {
			f.Run.State = policy.RunActive
			if again := s.Repeat(f.Recall(kept), was, ""); again.Result != policy.ResultDiffers {
				t.Fatalf("%+v: an active run, recorded %+v, repeated %+v", q, was, again)
			}
		}
		if was.Step == policy.StepScope {
			f.Scope = map[string]string{"case_id": "1"}
			if again := s.Repeat(f.Recall(kept), was, ""); again.Result != policy.ResultDiffers {
				t.Fatalf("%+v: with the key, recorded %+v, repeated %+v", q, was, again)
			}
		}
	}
	for _, rule := range []string{"", "run", "run.actors", "run.state", "run.policy_versions", "run.lanes"} {
		if steps[rule] == 0 {
			t.Errorf("no decision by %q: %v", rule, steps)
		}
	}
}

// vary changes the run, the scope and the arguments of a question.
func vary(r *rand.Rand, q *policy.Question) {
	run := *q.Run
	switch q.Run = &run; r.IntN(8) {
	case 0:
		q.Run = nil
	case 1:
		q.Run, q.RunID = nil, ""
	case 2:
		run.Actors = []string{"agent://other"}
	case 3:
		run.State = policy.RunPaused
	case 4:
		run.Pinned.Lanes = "other"
	case 5:
		run.Lanes = []string{"lane1"}
	}
	switch r.IntN(3) {
	case 0:
		q.Scope = nil
	case 1:
		q.Scope = map[string]string{"case_id": "", "other": "1"}
	}
	if r.IntN(2) == 0 {
		q.Input = jsontext.Value(`{"force":true}`)
	}
}
