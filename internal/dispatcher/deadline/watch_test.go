package deadline

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// What is decided costs no memory, also behind an attempt that stays open for long.
func TestGuardForgetsBehindAnOldAttempt(t *testing.T) {
	g := newWatch(time.Now)
	attempt := func(n int) call.Attempt {
		return call.Attempt{N: 1, Admitted: uint64(n), Deadline: call.At(time.Now().Add(time.Hour))}
	}
	g.open("echo", "old", attempt(1), 0, true)
	const calls = 10_000
	for n := range calls {
		g.open("echo", strconv.Itoa(n), attempt(n+2), 0, true)
		g.close(strconv.Itoa(n), 1, uint64(n+2))
	}
	if len(g.order) > 2 || g.oldest() != 1 {
		t.Errorf("%d are kept, the oldest at %d", len(g.order), g.oldest())
	}
	g.open("echo", "new", attempt(calls+2), 0, true)
	if g.close("old", 1, 1); g.oldest() != calls+2 || g.size() != 1 {
		t.Errorf("%d are watched, the oldest at %d", g.size(), g.oldest())
	}
}

// An attempt of an admission that is gone makes room for that of a later one, whose watch it cannot end.
func TestGuardOfALaterAdmission(t *testing.T) {
	g := newWatch(time.Now)
	attempt := func(admitted uint64) call.Attempt {
		return call.Attempt{N: 1, Admitted: admitted, Deadline: call.At(time.Now().Add(time.Hour))}
	}
	g.open("echo", "id", attempt(3), 0, true)
	g.open("echo", "id", attempt(7), 0, true)
	g.close("id", 1, 3)
	if g.saw(9); g.size() != 1 || g.oldest() != 7 || g.due.Len() != 1 || g.decided("id", 1, 7) || !g.decided("id", 1, 3) {
		t.Errorf("%d are watched, %d due, the oldest at %d", g.size(), g.due.Len(), g.oldest())
	}
	if g.close("id", 1, 7); g.size() != 0 || g.oldest() != 0 || g.due.Len() != 0 || !g.decided("id", 1, 7) {
		t.Errorf("%d are watched, %d due, the oldest at %d", g.size(), g.due.Len(), g.oldest())
	}
}

// An attempt that was decided while its admission was answered is not watched: its owner would be answered again at
// its deadline. An event of the log itself is believed, for its admission may have expired.
func TestDecidedAttemptIsNotWatched(t *testing.T) {
	g := newWatch(time.Now)
	a := call.Attempt{N: 1, Admitted: 3, Deadline: call.At(time.Now().Add(time.Hour))}
	g.saw(3)
	g.open("echo", "id", a, 0, true)
	g.close("id", 1, 3)
	if g.open("echo", "id", a, 0, false); g.size() != 0 {
		t.Error("a decided attempt is watched")
	}
	if g.open("echo", "id", a, 0, true); g.size() != 1 {
		t.Error("an attempt that the log shows is not watched")
	}
}

// Beyond what has been read of the log, nothing is known to be decided.
func TestGuardKnowsOnlyWhatItSaw(t *testing.T) {
	g := newWatch(time.Now)
	if g.saw(4); g.decided("id", 1, 5) || !g.decided("id", 1, 4) {
		t.Error("what was not read is taken for decided, or the other way round")
	}
}

// A partition whose log takes nothing keeps only its own deadlines waiting.
func TestPartitionsKeepTheirOwnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &answer.Process{
			CallLog: deafPart{}, Now: time.Now, NewNonce: func() string { return "n" }, Logger: slog.New(slog.DiscardHandler),
		}
		w := NewWatches(2, time.Now)
		d := New(p, &Options{Backup: time.Millisecond}, w, answer.New(p, nil, nil, noLines{}, w), &flow.Counters{})
		due := call.Attempt{N: 1, Admitted: 1, Deadline: call.At(time.Now().Add(time.Second))}
		const calls = 3 * expirers
		for n := range calls {
			w[1].open("echo", fmt.Sprint("deaf", n), due, 0, true)
			w[0].open("echo", fmt.Sprint("well", n), due, 0, true)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); d.Run(ctx) }()
		<-time.After(2 * time.Second)
		synctest.Wait()
		page, _, more := w.OpenAfter(envelope.LockKillPosition{}, calls, subjects.Owner{})
		if w[0].size() != 0 || w[1].size() != calls || len(page) != calls || more {
			t.Errorf("%d of the one and %d of the other partition are watched", w[0].size(), w[1].size())
		}
		if d.ReplayFrom(0) != 0 || d.ReplayFrom(1) != 1 {
			t.Errorf("the oldest are at %d and %d", d.ReplayFrom(0), d.ReplayFrom(1))
		}
		cancel()
		<-done
	})
}

func (w *watch) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey)
}

// noLines has no line: nobody waits here.
type noLines struct{}

func (noLines) Line(subjects.Key) *answer.Line { return nil }
func (noLines) Retire(*answer.Line)            {}

// deafPart is an empty log, of which one partition answers nothing.
type deafPart struct{ answer.Log }

func (deafPart) Read(ctx context.Context, _, id string) (call.Entry, error) {
	if strings.HasPrefix(id, "deaf") {
		<-ctx.Done()
		return call.Entry{}, ctx.Err()
	}
	return call.Entry{}, nil
}

func (deafPart) Write(_ context.Context, e call.Event, _ []byte) (call.State, error) {
	return call.Fold(e, 1), nil
}

// One look for the attempts of an owner passes a bounded number of others, and the next one goes on behind it.
func TestOpenAfterPassesOthers(t *testing.T) {
	w, opened := NewWatches(2, time.Now), &flow.Counters{}
	due := call.Attempt{N: 1, Deadline: call.At(time.Now().Add(time.Hour))}
	for n := range 2*maxLook + 1 {
		s := call.State{Pinned: call.Pinned{Tenant: "t", ID: fmt.Sprint(n)}}
		if due.Admitted, due.Owner.Actor = uint64(n+1), "b"; n == 2*maxLook {
			due.Owner.Actor = "a"
		}
		w[1].open("echo", s.ID, due, 0, true)
		w[1].count(opened, s, due)
	}
	var after envelope.LockKillPosition
	for looks := 1; ; looks++ {
		page, next, more := w.OpenAfter(after, 10, subjects.Owner{Tenant: "t", Actor: "a"})
		if after = next; more && len(page) == 0 {
			continue
		}
		if looks != 3 || more || len(page) != 1 || page[0].At != (envelope.LockKillPosition{Part: 1, Seq: 2*maxLook + 1}) {
			t.Errorf("%d looks: %+v", looks, page)
		}
		return
	}
}
