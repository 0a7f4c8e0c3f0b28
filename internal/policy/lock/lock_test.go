package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
)

func TestFind(t *testing.T) {
	b := lock.NewBoard()
	tool, lane := envelope.LockTarget{Tool: "fs.write"}, envelope.LockTarget{Lane: "night"}
	b.Learn([]envelope.Lock{{LockTarget: tool}, {LockTarget: lane}}, time.Now())
	for _, c := range []struct {
		tool, lane string
		want       envelope.LockTarget
	}{
		{"fs.write", "", tool}, {"fs.write", "night", tool}, {"echo", "night", lane}, {"echo", "", envelope.LockTarget{}},
		{"echo", "day", envelope.LockTarget{}}, {"", "", envelope.LockTarget{}},
	} {
		l, err := b.Find(t.Context(), c.tool, c.lane)
		if err != nil || (l == nil) != (c.want == envelope.LockTarget{}) || l != nil && l.LockTarget != c.want {
			t.Errorf("%+v: %+v, %v", c, l, err)
		}
	}
	b.Learn([]envelope.Lock{{LockTarget: envelope.LockTarget{All: true}}}, time.Now())
	if l, err := b.Find(t.Context(), "echo", ""); err != nil || l == nil || !l.All {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := (*lock.Board)(nil).Find(t.Context(), "echo", ""); l != nil || err != nil {
		t.Errorf("without a board: %+v, %v", l, err)
	}
}

// A board is good for less than a second, and then for nothing until it learns more.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lock.NewBoard()
		stale := func(when string, want bool) {
			t.Helper()
			if _, err := b.Find(t.Context(), "echo", ""); errors.Is(err, lock.ErrStale) != want {
				t.Errorf("%s: %v", when, err)
			}
		}
		stale("before it was read", true)
		b.Learn(nil, time.Now())
		stale("now", false)
		<-time.After(900 * time.Millisecond)
		stale("after 900 ms", false)
		<-time.After(time.Millisecond)
		if _, _, err := b.Known(); !errors.Is(err, lock.ErrStale) {
			t.Errorf("known: %v", err)
		}
		stale("later", true)
		b.Learn(nil, time.Now().Add(-800*time.Millisecond)) // an answer that was under way for long
		_, age, err := b.Known()
		if err != nil || age != 800*time.Millisecond {
			t.Errorf("known for %s, %v", age, err)
		}
		<-time.After(101 * time.Millisecond)
		stale("after an old answer", true)
	})
}

// Who waits for newer knowledge is woken by it, and what is older than the board changes nothing.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lock.NewBoard()
		time.AfterFunc(200*time.Millisecond, func() {
			b.Learn([]envelope.Lock{{LockTarget: envelope.LockTarget{All: true}}}, time.Now())
			b.Learn(nil, time.Now().Add(-time.Millisecond))
		})
		began := time.Now()
		l, err := b.Find(t.Context(), "echo", "")
		if err != nil || l == nil || time.Since(began) != 200*time.Millisecond {
			t.Errorf("%+v, %v after %s", l, err, time.Since(began))
		}
		<-time.After(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := b.Find(ctx, "echo", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait for long: %v", err)
		}
	})
}

func TestRefusal(t *testing.T) {
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	for target, want := range map[envelope.LockTarget][2]string{
		{All: true}:        {"all calls are locked by acme/user://ada since 2026-11-26T03:00:00Z: INC-7", "unlock --all "},
		{Tool: "fs.write"}: {"the tool fs.write is locked by acme/user://ada since ", "unlock --tool fs.write "},
		{Lane: "night"}:    {"the lane night is locked by acme/user://ada since ", "unlock --lane night "},
	} {
		e := lock.Refusal(&envelope.Lock{LockTarget: target, Reason: "INC-7", By: "acme/user://ada", At: at})
		if e.Code != envelope.CodeLocked || !strings.HasPrefix(e.Message, want[0]) || !strings.Contains(e.Fix, want[1]) ||
			e.Code.AutoRetry() || e.Details.Effect != envelope.EffectNone {
			t.Errorf("%+v", e)
		}
	}
}
