package executor_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// eachLockable is each with a board, on which set puts the locks in force.
func eachLockable(t *testing.T, test func(w *world, set func(...envelope.LockTarget))) {
	each(t, func(t *testing.T, w *world) {
		w.ex.Locks = lock.NewBoard()
		test(w, func(targets ...envelope.LockTarget) {
			locks := make([]envelope.Lock, len(targets))
			for i, l := range targets {
				locks[i] = envelope.Lock{LockTarget: l, Reason: "INC-7", By: "acme/user://ada", At: time.Now()}
			}
			w.ex.Locks.Learn(locks, time.Now())
		})
	})
}

// locked checks that attempt 1 ended by the lock, without a run.
func (w *world) locked(m executor.Message, effect envelope.Effect) {
	w.t.Helper()
	d := w.decided(1)
	if d.Code != envelope.CodeLocked || d.Status != envelope.RetryableError || d.Effect != effect || len(w.runs) > 0 {
		w.t.Errorf("%d runs, decision %+v, want effect %s", len(w.runs), d, effect)
	}
	if r := w.replies; len(r) != 1 || !strings.Contains(r[0].Error.Message, "INC-7") {
		w.t.Errorf("the caller got %+v", r)
	}
	w.wantAcked(m, true)
}

// A locked call ends without a run and without a claim. On a first delivery nobody can have started it; later somebody
// can have, unless the call must be claimed.
func TestLocked(t *testing.T) {
	for _, deliveries := range []int{1, 2} {
		eachLockable(t, func(w *world, set func(...envelope.LockTarget)) {
			set(envelope.LockTarget{Tool: "echo"})
			m := w.admit(callA, time.Minute)
			m.Deliveries = deliveries
			w.ex.Handle(w.t.Context(), m)
			effect := envelope.EffectNone
			if deliveries > 1 && w.manifest.Class == call.Idempotent {
				effect = envelope.EffectUnknown
			}
			w.locked(m, effect)
			if w.state().Last().Claim != nil {
				w.t.Error("it was claimed")
			}
			set(envelope.LockTarget{Tool: "other"})
			w.ex.Handle(w.t.Context(), w.admit(callB, time.Minute)) // the same key, after the lock
			if d := w.decided(2); d.Status != envelope.Success {
				w.t.Errorf("after the lock: %+v", d)
			}
		})
	}
}

// A call that an executor has claimed that is gone is not run under a lock, and its tool is not asked, either.
func TestLockedAfterAClaim(t *testing.T) {
	eachLockable(t, func(w *world, set func(...envelope.LockTarget)) {
		w.admitted = call.LookupYes
		w.manifest.Capability.Lookup = true
		m := w.claimed("default/dead")
		w.gone["default/dead"] = true
		set(envelope.LockTarget{All: true})
		w.ex.Handle(w.t.Context(), m)
		d := w.decided(1)
		want := map[call.EffectClass]envelope.Code{
			call.Pure: envelope.CodeLocked, call.Idempotent: envelope.CodeLocked,
			call.SideEffectful: envelope.CodeToolUnknownState,
		}[w.manifest.Class]
		if d.Code != want || len(w.runs) > 0 || w.manifest.Class != call.Pure && d.Effect != envelope.EffectUnknown {
			w.t.Errorf("%d runs, decision %+v, want %s", len(w.runs), d, want)
		}
		if e := w.replies[0].Error; want == envelope.CodeToolUnknownState && (d.Answer != call.LookupLocked ||
			!strings.Contains(e.Message, "was not asked, because a safety lock was in force") ||
			!strings.HasPrefix(e.Cause, "P-PRECOND-LOCKED: ")) {
			w.t.Errorf("answer %q: %s, %s", d.Answer, e.Message, e.Cause)
		}
	})
}

// An executor that does not know the locks hands work back as it got it, and starts it once it knows them.
func TestLocksNotKnown(t *testing.T) {
	eachLockable(t, func(w *world, set func(...envelope.LockTarget)) {
		set()
		pass(time.Second) // as of an executor that was suspended, or gets no answers
		m := w.admit(callA, time.Minute)
		began := time.Now()
		w.ex.Handle(w.t.Context(), m)
		if took := time.Since(began); took > time.Second || len(w.runs) > 0 || !w.state().Last().Open() {
			w.t.Errorf("%d runs after %s: %+v", len(w.runs), took, w.state().Last())
		}
		w.wantAcked(m, false)
		if w.state().Last().Claim != nil {
			w.t.Error("it was claimed")
		}
		go w.ex.Handle(w.t.Context(), again(m))
		pass(100 * time.Millisecond)
		set()
		synctest.Wait()
		if d := w.decided(1); d.Status != envelope.Success {
			w.t.Errorf("%+v", d)
		}
	})
}

// A call whose claim took so long that the locks are not known any more, as while servers elect a leader, runs once
// they are known: nobody else could tell that it was not started.
func TestLocksNotKnownAfterTheClaim(t *testing.T) {
	eachLockable(t, func(w *world, set func(...envelope.LockTarget)) {
		set()
		m := again(w.admit(callA, time.Minute)) // so that each class claims
		w.log.Before(func(e call.Event) error {
			if e.Kind == call.Claimed {
				pass(2 * time.Second)
				go func() {
					pass(time.Second)
					set()
				}()
			}
			return nil
		})
		w.ex.Handle(w.t.Context(), m)
		pass(2 * time.Second) // if it did not wait for the locks
		if d := w.decided(1); d.Status != envelope.Success || len(w.runs) != 1 {
			w.t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
		w.wantAcked(m, true)
	})
}

// locking reads inputs, and a lock is set meanwhile.
type locking struct {
	payloads
	set func(...envelope.LockTarget)
}

func (l locking) Get(context.Context, subjects.PayloadOwner, envelope.PayloadRef) ([]byte, error) {
	l.set(envelope.LockTarget{All: true})
	return []byte(`{"n":1}`), nil
}

// A lock that is set while a run is prepared stops it before its tool is started.
func TestLockedWhileItIsPrepared(t *testing.T) {
	eachLockable(t, func(w *world, set func(...envelope.LockTarget)) {
		set()
		w.ex.Payloads = locking{payloads{w}, set}
		m := large(w.admit(callA, time.Minute))
		w.ex.Handle(w.t.Context(), m)
		w.locked(m, envelope.EffectNone)
	})
}

// A lock that is set while the adapter validates the call stops it. An executor that was frozen then does not start the
// tool by the locks from before.
func TestLockedWhileItIsValidated(t *testing.T) {
	eachLockable(t, func(w *world, set func(...envelope.LockTarget)) {
		set()
		w.refuse = func(tool.Invocation) error {
			pass(2 * time.Second)
			go func() {
				pass(50 * time.Millisecond)
				set(envelope.LockTarget{All: true})
			}()
			return nil
		}
		m := w.admit(callA, time.Minute)
		w.ex.Handle(w.t.Context(), m)
		w.locked(m, envelope.EffectNone)
	})
}

// A tool that runs as many calls as it may does not keep a locked call waiting. If the lock is cleared meanwhile, the
// call waits for the tool as all others.
func TestLockedWhileItsToolIsBusy(t *testing.T) {
	eachLockable(t, func(w *world, set func(...envelope.LockTarget)) {
		set()
		busy, end := w.busy()
		set(envelope.LockTarget{All: true})
		m := w.admitAs("id2", callB, time.Minute)
		w.ex.Handle(w.t.Context(), m)
		last, err := w.log.Read(w.t.Context(), "echo", "id2")
		if d := last.State.Last().Decision; err != nil || d == nil || d.Code != envelope.CodeLocked ||
			d.Effect != envelope.EffectNone {
			w.t.Errorf("%+v, %v", d, err)
		}
		end()
		w.wantAcked(busy, true)
	})
}
