package call_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

func alive(string) bool { return false }

func TestTake(t *testing.T) {
	t.Parallel()
	const (
		pure, idem, side = call.Pure, call.Idempotent, call.SideEffectful
		future           = call.EffectClass("of a later version")
	)
	admitted := func(class call.EffectClass) func(*journal) { return func(j *journal) { j.admit(class, "A") } }
	claimed := func(class call.EffectClass) func(*journal) {
		return func(j *journal) { j.admit(class, "A"); j.claim("other") }
	}
	dry := func(then func(*journal)) func(*journal) { return func(j *journal) { j.dry = true; then(j) } }
	second := func(p *call.WorkDelivery) { p.Deliveries = 2 }
	late := func(p *call.WorkDelivery) { p.Now = start + 15_000 }
	for name, c := range map[string]struct {
		log    func(*journal)
		pickup func(*call.WorkDelivery)
		want   call.NextStep
	}{
		"no such attempt":                  {admitted(pure), func(p *call.WorkDelivery) { p.Attempt = 2 }, call.Drop},
		"the attempt of another admission": {admitted(pure), func(p *call.WorkDelivery) { p.Admitted++ }, call.Drop},
		"decided":                          {func(j *journal) { j.admit(pure, "A"); j.succeed() }, nil, call.Adopt},
		"decided and past its deadline":    {func(j *journal) { j.admit(pure, "A"); j.succeed() }, late, call.Adopt},
		"past its deadline":                {admitted(pure), late, call.Expire},
		"one millisecond before it": {admitted(side), func(p *call.WorkDelivery) { p.Now = start + 14_999 },
			call.TakeClaim},
		"claimed by a live one, past it": {claimed(side), func(p *call.WorkDelivery) { late(p); p.Gone = alive },
			call.Expire},
		"claimed by us, past it": {claimed(side), func(p *call.WorkDelivery) { late(p); p.Nonce = "other" },
			call.Expire},
		"pure, first delivery":       {admitted(pure), nil, call.Run},
		"idempotent, first delivery": {admitted(idem), nil, call.Run},
		"idempotent, first delivery, and old": {admitted(idem), func(p *call.WorkDelivery) {
			p.Now = start +
				9_999
		}, call.Run},
		"side-effectful, first delivery":  {admitted(side), nil, call.TakeClaim},
		"unknown class, first delivery":   {admitted(future), nil, call.TakeClaim},
		"dry run, first delivery":         {dry(admitted(side)), nil, call.Run},
		"dry run, second delivery":        {dry(admitted(side)), second, call.TakeClaim},
		"dry run, the claimer is gone":    {dry(claimed(side)), nil, call.TakeClaim},
		"pure, second delivery":           {admitted(pure), second, call.TakeClaim},
		"idempotent, second delivery":     {admitted(idem), second, call.TakeClaim},
		"side-effectful, second delivery": {admitted(side), second, call.TakeClaim},
		"side-effectful, claimed by us": {claimed(side), func(p *call.WorkDelivery) { p.Nonce, p.Gone = "other", alive },
			call.Run},
		"idempotent, claimed by us": {claimed(idem), func(p *call.WorkDelivery) { p.Nonce, p.Gone = "other", alive },
			call.Run},
		"idempotent, claimed by a live one": {claimed(idem), func(p *call.WorkDelivery) { p.Gone = alive },
			call.WaitClaim},
		"side-effectful, claimed by a live one": {claimed(side), func(p *call.WorkDelivery) { p.Gone = alive },
			call.WaitClaim},
		"idempotent, the claimer is gone": {claimed(idem), nil, call.TakeClaim},
		"idempotent, first seen claimed": {claimed(idem), func(p *call.WorkDelivery) { p.Deliveries = 1 },
			call.TakeClaim},
		"side-effectful, the claimer is gone": {claimed(side), nil, call.AskTool},
		"unknown class, the claimer is gone":  {claimed(future), nil, call.AskTool},
		"idempotent, claimed for the last time": {func(j *journal) {
			j.admit(idem, "A")
			for n := range 2 * call.MaxDeaths {
				j.claim(fmt.Sprint("c", n))
			}
		}, second, call.DeadLetter},
		"idempotent, died beside others": {func(j *journal) {
			j.admit(idem, "A")
			for n := range 2*call.MaxDeaths - 1 {
				j.claim(fmt.Sprint("c", n))
			}
		}, second, call.TakeClaim},
		"idempotent, died alone": {func(j *journal) {
			j.admit(idem, "A")
			for n := range call.MaxDeaths {
				j.claimAlone(fmt.Sprint("c", n))
			}
		}, second, call.DeadLetter},
		"idempotent, may die alone once more": {func(j *journal) {
			j.admit(idem, "A")
			j.claim("c")
			for n := range call.MaxDeaths - 1 {
				j.claimAlone(fmt.Sprint("c", n))
			}
		}, second, call.TakeClaim},
		"the same, but the last claimer lives": {func(j *journal) {
			j.admit(idem, "A")
			for n := range 2 * call.MaxDeaths {
				j.claim(fmt.Sprint("c", n))
			}
		}, func(p *call.WorkDelivery) { p.Gone = alive }, call.WaitClaim},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			c.log(j)
			p := j.pickup("mine")
			if c.pickup != nil {
				c.pickup(&p)
			}
			step, e := call.Take(j.state, p)
			if step != c.want {
				t.Errorf("step %d, want %d", step, c.want)
			}
			if wrote := e.Kind != ""; wrote != (step == call.TakeClaim) {
				t.Errorf("event %+v with step %d", e, step)
			}
		})
	}
}

func TestTakeAsksWhoClaimed(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	j.claim("c1")
	p := j.pickup("c2")
	var asked []string
	p.Gone = func(instance string) bool { asked = append(asked, instance); return true }
	call.Take(j.state, p)
	if diff := cmp.Diff([]string{"default/e-c1"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestClaimsAndFences(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	fence := call.Fence(j.state, j.pickup("first"))
	if fence != j.state.Last().Admitted {
		t.Errorf("without a claim the fence is %d, want the message's %d", fence, j.state.Last().Admitted)
	}
	if newest := j.state.Last().Fence(); newest != fence {
		t.Errorf("the newest run has fence %d, want %d", newest, fence)
	}
	for n := 1; n <= 2*call.MaxDeaths; n++ {
		nonce := fmt.Sprint("c", n)
		j.claim(nonce)
		want := &call.Claim{By: "default/e-" + nonce, Nonce: nonce, Fence: j.state.Seq, Count: n, At: start + 1}
		if diff := cmp.Diff(want, j.state.Last().Claim); diff != "" {
			t.Error(diff)
		}
		if next := call.Fence(j.state, j.pickup(nonce)); next <= fence {
			t.Errorf("fence %d after %d", next, fence)
		} else {
			fence = next
		}
		if newest := j.state.Last().Fence(); newest != fence {
			t.Errorf("the newest run has fence %d, want %d", newest, fence)
		}
	}
}
