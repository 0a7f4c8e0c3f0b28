package dispatcher_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
)

// lockable is a dispatcher with a board, on which set puts the locks that are in force now.
func lockable(t *testing.T, class call.EffectClass, test func(w *world, set func(...envelope.LockTarget))) {
	bubble(t, class, func(t *testing.T, w *world) {
		w.stop()
		w.board = lock.NewBoard()
		w.run("d2")
		test(w, func(targets ...envelope.LockTarget) {
			locks := make([]envelope.Lock, len(targets))
			for i, l := range targets {
				locks[i] = envelope.Lock{LockTarget: l, Reason: "INC-7", By: "acme/user://ada", At: time.Now()}
			}
			w.board.Learn(locks, time.Now())
		})
	})
}

var (
	inLane  = []string{`"env":"dev"`, `"env":"dev","lane_id":"night"`}
	another = []string{"key-", "another-"}
)

// A locked call is refused, on record and with who set the lock and why. It opens no log, and the same key is admitted
// once the lock is cleared.
func TestLocked(t *testing.T) {
	for _, c := range []struct {
		target envelope.LockTarget
		edit   []string
		locked bool
	}{
		{envelope.LockTarget{All: true}, nil, true},
		{envelope.LockTarget{Tool: "echo"}, nil, true},
		{envelope.LockTarget{Lane: "night"}, inLane, true},
		{envelope.LockTarget{Lane: check.DefaultLane}, nil, true}, // of calls that name none
		{envelope.LockTarget{Tool: "other"}, nil, false},
		{envelope.LockTarget{Lane: "night"}, nil, false},
		{envelope.LockTarget{Lane: "day"}, inLane, false},
	} {
		lockable(t, call.SideEffectful, func(w *world, set func(...envelope.LockTarget)) {
			set(envelope.LockTarget{Tool: "first"}, c.target)
			w.ask(1, c.edit...)
			if !c.locked {
				if w.acceptedBy(1) != 1 {
					w.t.Errorf("%+v locks %v", c.target, c.edit)
				}
				return
			}
			r := w.outcome(1)
			if e := r.Error; e.Code != envelope.CodeLocked || e.Details.Effect != envelope.EffectNone ||
				!strings.Contains(e.Message, "by acme/user://ada since 2000-01-01T") || !strings.HasSuffix(e.Message, "INC-7") ||
				!strings.Contains(e.Fix, "toolbus unlock "+c.target.Flag()) {
				w.t.Errorf("%+v", e)
			}
			if p := r.Provenance; p.Final || p.AuditEventID == "" || !p.NotStarted || len(w.log.Entries()) > 0 {
				w.t.Errorf("%+v, %d events", p, len(w.log.Entries()))
			}
			on, _, _ := strings.Cut(strings.TrimPrefix(c.target.Flag(), "--"), " ")
			if l := w.refused[0].Lock; l == nil || *l != (audit.SafetyLock{Target: on, Reason: "INC-7", By: "acme/user://ada"}) {
				w.t.Errorf("on record is %+v, want one of %s", l, on)
			}
			set()
			if w.ask(2, c.edit...); w.acceptedBy(2) != 1 {
				w.t.Errorf("not accepted after %+v was cleared", c.target)
			}
		})
	}
}

// A call that has an outcome keeps it, whatever is locked now; another caller gets none under a lock.
func TestLockedAfterItsEnd(t *testing.T) {
	lockable(t, call.Pure, func(w *world, set func(...envelope.LockTarget)) {
		set()
		w.ask(1)
		w.decide("")
		set(envelope.LockTarget{All: true})
		if w.ask(1); w.outcome(1).Status != envelope.Success {
			w.t.Errorf("the same call: %+v", w.outcome(1))
		}
		if w.ask(2); w.outcome(2).Error.Code != envelope.CodeLocked {
			w.t.Errorf("a repeat: %+v", w.outcome(2))
		}
	})
}

// A dispatcher that does not know which locks are in force refuses, and does not say that this is final.
func TestLocksNotKnown(t *testing.T) {
	lockable(t, call.Pure, func(w *world, set func(...envelope.LockTarget)) {
		refused := func(n int, edit ...string) {
			w.t.Helper()
			w.ask(n, edit...)
			if r := w.outcome(n); r.Error.Code != envelope.CodeUnavailable || r.Provenance.Final || !r.Provenance.NotStarted {
				w.t.Errorf("%+v", r)
			}
		}
		refused(1)
		set()
		if w.ask(2); w.acceptedBy(2) != 1 {
			w.t.Error("not accepted")
		}
		pass(time.Second) // as of a process that was suspended
		refused(3, another...)
		go w.d.Handle(w.t.Context(), w.request(4, another...))
		pass(100 * time.Millisecond)
		set()
		pass(time.Millisecond)
		if w.acceptedBy(4) != 1 {
			w.t.Error("a request did not wait for news that came in time")
		}
	})
}
