package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A kill cancels the running calls that a lock in force covers, and no other: not those in the queue, of which
// executors start none, and not those of another tool or lane.
func TestKillLocked(t *testing.T) {
	at := func(*world) {}
	runs := func(w *world) { w.finds = &pool{runner: "default/e1", since: time.Now()} }
	for name, c := range map[string]struct {
		class  call.EffectClass
		setup  func(*world)
		target envelope.LockTarget
		edit   []string
		effect envelope.Effect // "": not killed
	}{
		"claimed": {call.SideEffectful, (*world).claim, envelope.LockTarget{Tool: "echo"}, nil,
			envelope.EffectUnknown},
		"runs without a claim": {call.Pure, runs, envelope.LockTarget{All: true}, nil, envelope.EffectNone},
		"in the lane":          {call.Idempotent, runs, envelope.LockTarget{Lane: "night"}, inLane, envelope.EffectUnknown},
		"in the queue":         {call.SideEffectful, at, envelope.LockTarget{All: true}, nil, ""},
		"another tool":         {call.SideEffectful, (*world).claim, envelope.LockTarget{Tool: "other"}, nil, ""},
		"another lane":         {call.SideEffectful, (*world).claim, envelope.LockTarget{Lane: "day"}, inLane, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lockable(t, c.class, func(w *world, set func(...envelope.LockTarget)) {
				set()
				w.ask(1, c.edit...)
				c.setup(w)
				if _, refusal := w.d.KillLocked(w.t.Context(), envelope.LockKillRequest{LockTarget: c.target}); refusal == nil ||
					refusal.Code != envelope.CodeNotFound {
					w.t.Errorf("without the lock: %v", refusal)
				}
				set(c.target)
				a, refusal := w.d.KillLocked(w.t.Context(), envelope.LockKillRequest{LockTarget: c.target})
				if refusal != nil || a.More || len(a.Killed) != min(1, len(c.effect)) {
					w.t.Fatalf("%+v, %v", a, refusal)
				}
				if c.effect == "" {
					return
				}
				want := envelope.KilledCall{Ref: w.state().Ref(), Tool: "echo", Effect: c.effect}
				if a.Killed[0] != want || w.kills != 1 {
					w.t.Errorf("killed %+v, %d kills", a.Killed, w.kills)
				}
				said := w.outcome(1).Error.Cause
				if !strings.Contains(said, "P-PRECOND-LOCKED") || !strings.Contains(said, "INC-7") {
					w.t.Errorf("the owner was told %q", said)
				}
				a, refusal = w.d.KillLocked(w.t.Context(), envelope.LockKillRequest{LockTarget: c.target, After: a.Next})
				if refusal != nil || len(a.Killed) > 0 {
					w.t.Errorf("again: %+v, %v", a, refusal)
				}
			})
		})
	}
}

// Each request looks at a page of the open calls, and the next one goes on behind it: each call is looked at once.
func TestKillLockedPages(t *testing.T) {
	lockable(t, call.Pure, func(w *world, set func(...envelope.LockTarget)) {
		set()
		for n := range 150 {
			w.ask(n, "key-", fmt.Sprint(n, "-key-"))
		}
		w.finds = &pool{runner: "default/e1", since: time.Now()}
		set(envelope.LockTarget{All: true})
		killed := map[string]bool{}
		q := envelope.LockKillRequest{LockTarget: envelope.LockTarget{All: true}}
		for pages := 1; ; pages++ {
			a, refusal := w.d.KillLocked(context.WithoutCancel(w.t.Context()), q)
			if refusal != nil {
				w.t.Fatal(refusal)
			}
			for _, k := range a.Killed {
				killed[k.Ref] = true
			}
			if q.After = a.Next; a.More {
				continue
			}
			if len(killed) != 150 || pages != 3 {
				w.t.Errorf("%d killed on %d pages", len(killed), pages)
			}
			return
		}
	})
}
