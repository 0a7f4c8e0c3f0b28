package workqueue_test

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// What goes behind leaves slots to what others ask for, however long it takes, and however much of it there is. It has
// some of its own as well: what goes ahead does not keep it out.
func TestBehindLeavesSlots(t *testing.T) {
	const slots, kept = 16, 2
	f := setup(t)
	for n := range 100 {
		f.AdmitGreedy(n, envelope.PriorityHigh, 3)
	}
	h := f.hold(slots)
	for range slots - kept {
		h.next(t)
	}
	for n := range kept {
		f.Admit(100+n, envelope.PriorityLow)
		if a := h.next(t).Entry.State.Last(); a.Step > 1 {
			t.Error("what goes behind has taken a slot that it was to leave")
		}
	}
	for n := range 200 {
		f.Admit(200+n, envelope.PriorityNormal)
	}
	f.until(func() bool { return h.releaseOne(t).Entry.State.Last().Step < 2 })
	for behind, n := 0, 0; behind < 3*kept; n++ {
		if h.releaseOne(t).Entry.State.Last().Step > 1 {
			behind++
		}
		if n == 150 {
			t.Fatalf("of %d calls %d were of those behind", n, behind)
		}
	}
}

// Whoever has all slots that what goes behind may have is not let ahead to those left, in whichever order the calls
// come; and what was to go ahead has the next of those slots.
func TestLateCallsOfTheGreedy(t *testing.T) {
	const slots, kept, late = 16, 2, 4
	f := setup(t)
	for n := range 100 {
		f.AdmitGreedy(n, envelope.PriorityNormal, 3)
	}
	h := f.hold(slots)
	for range slots - kept {
		h.next(t)
	}
	for n := range late {
		f.AdmitGreedy(100+n, envelope.PriorityNormal, 0)
	}
	for n := range kept {
		f.Admit(200+n, envelope.PriorityNormal)
		if a := h.next(t).Entry.State.Last(); a.Owner.Actor == "greedy" {
			t.Error("a call of the greedy one has a slot that is left to others")
		}
	}
	for n, came := 0, 0; came < late; n++ {
		if h.releaseOne(t).Entry.State.Last().Step < 2 {
			came++
		}
		if n == 50 {
			t.Fatalf("%d of %d calls of the greedy one that were to go ahead have begun", came, late)
		}
	}
}

// Of busy slots, what goes behind has a part even while others want all, and
// each of its priorities has some of that.
func TestShareOfWhatGoesBehind(t *testing.T) {
	for _, slots := range []int{workqueue.MinSlots, 16} {
		f := setup(t)
		const runs = 250
		for n := range runs {
			f.Admit(4*n, envelope.PriorityNormal)
			f.AdmitGreedy(4*n+1, envelope.PriorityHigh, 3)
			f.AdmitGreedy(4*n+2, envelope.PriorityNormal, 3)
			f.AdmitGreedy(4*n+3, envelope.PriorityLow, 3)
		}
		h := f.hold(slots)
		for range slots {
			h.next(t)
		}
		share := map[string]int{}
		for range runs {
			a := h.releaseOne(t).Entry.State.Last()
			share[a.Queue()]++
		}
		ahead := share[subjects.Queue("normal", 0)]
		if ahead < runs*2/5 || ahead > runs*15/16 || len(share) != 4 {
			t.Errorf("%d slots: of %d runs %v, by weight 24:6:3:1", slots, runs, share)
		}
	}
}
