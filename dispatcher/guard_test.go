package dispatcher

import (
	"strconv"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// state is a call of a partition of the log.
func state(p subjects.Part, id string) call.State {
	return call.State{Part: p, Facts: call.Facts{Tool: "echo", ID: id}}
}

// What is decided costs no memory, also behind an attempt that stays open for long.
func TestGuardForgetsBehindAnOldAttempt(t *testing.T) {
	g := newGuard(time.Now)
	attempt := func(n int) call.Attempt {
		return call.Attempt{N: 1, Admitted: uint64(n), Deadline: call.At(time.Now().Add(time.Hour))}
	}
	g.open(state(0, "old"), attempt(1), 0)
	const calls = 10_000
	for n := range calls {
		g.open(state(0, strconv.Itoa(n)), attempt(n+2), 0)
		g.close(strconv.Itoa(n), 1, uint64(n+2))
	}
	if len(g.sequel(0).order) > 2 || g.oldest(0) != 1 {
		t.Errorf("%d are kept, the oldest at %d", len(g.sequel(0).order), g.oldest(0))
	}
	g.open(state(0, "new"), attempt(calls+2), 0)
	if g.close("old", 1, 1); g.oldest(0) != calls+2 || g.size() != 1 {
		t.Errorf("%d are watched, the oldest at %d", g.size(), g.oldest(0))
	}
}

// An attempt of an admission that is gone makes room for that of a later one, whose watch it cannot end.
func TestGuardOfALaterAdmission(t *testing.T) {
	g := newGuard(time.Now)
	attempt := func(admitted uint64) call.Attempt {
		return call.Attempt{N: 1, Admitted: admitted, Deadline: call.At(time.Now().Add(time.Hour))}
	}
	g.open(state(0, "id"), attempt(3), 0)
	g.open(state(0, "id"), attempt(7), 0)
	g.close("id", 1, 3)
	if g.saw(0, 9); g.size() != 1 || g.oldest(0) != 7 || len(g.due) != 1 || g.decided(0, "id", 1, 7) || !g.decided(0, "id", 1, 3) {
		t.Errorf("%d are watched, %d due, the oldest at %d", g.size(), len(g.due), g.oldest(0))
	}
	if g.close("id", 1, 7); g.size() != 0 || g.oldest(0) != 0 || len(g.due) != 0 || !g.decided(0, "id", 1, 7) {
		t.Errorf("%d are watched, %d due, the oldest at %d", g.size(), len(g.due), g.oldest(0))
	}
}

// Beyond what has been read of the log, nothing is known to be decided.
func TestGuardKnowsOnlyWhatItSaw(t *testing.T) {
	g := newGuard(time.Now)
	if g.saw(0, 4); g.decided(0, "id", 1, 5) || !g.decided(0, "id", 1, 4) {
		t.Error("what was not read is taken for decided, or the other way round")
	}
}

// Positions are those of their partition: what was read of one says nothing about another.
func TestGuardKeepsPartitionsApart(t *testing.T) {
	g := newGuard(time.Now)
	at := func(admitted uint64) call.Attempt {
		return call.Attempt{N: 1, Admitted: admitted, Deadline: call.At(time.Now().Add(time.Hour))}
	}
	g.open(state(0, "a"), at(7), 0)
	g.open(state(1, "b"), at(3), 0)
	if g.oldest(0) != 7 || g.oldest(1) != 3 || g.oldest(2) != 0 {
		t.Errorf("the oldest are at %d, %d and %d", g.oldest(0), g.oldest(1), g.oldest(2))
	}
	g.saw(1, 9)
	if g.decided(0, "c", 1, 8) || !g.decided(1, "c", 1, 8) {
		t.Error("what was read of one partition is taken for what was read of another")
	}
	if g.close("b", 1, 3); g.oldest(0) != 7 || g.oldest(1) != 0 || g.size() != 1 {
		t.Errorf("%d are watched, the oldest at %d and %d", g.size(), g.oldest(0), g.oldest(1))
	}
}
