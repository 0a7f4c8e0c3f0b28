package workqueue

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Pulls tells whether this puller pulls from the queues of the last step, and from those between the first and the
// last. It does not if the server does not answer, as without the permission for these queues, or without the
// consumers, which older dispatchers do not make.
func (w *Puller) Pulls() (overflow, steps heartbeat.OverflowSupport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pulled()
	return p[1], p[0]
}

// pulled returns the support of the steps between the first and the last, and of the last. The caller holds w.mu.
func (w *Puller) pulled() [2]heartbeat.OverflowSupport {
	pulls := [2]heartbeat.OverflowSupport{heartbeat.PullsAll, heartbeat.PullsAll}
	for _, s := range w.sources {
		of := &pulls[s.step/(subjects.Steps-1)]
		switch {
		case s.step == 0 || s.heard:
		case s.silent:
			*of = heartbeat.PullsMainOnly
		case *of == heartbeat.PullsAll:
			*of = heartbeat.PullsUnknown
		}
	}
	return pulls
}

// Changed returns a channel that receives a value when the result of [Puller.Pulls] changes.
func (w *Puller) Changed() <-chan struct{} { return w.changed }

// answers records whether the server has answered a pull request of a source. The caller holds w.mu.
func (w *Puller) answers(s *source, heard bool) {
	s.answered = s.answered || heard
	if s.heard == heard && s.silent != heard {
		return
	}
	before := w.pulled()
	s.heard, s.silent = heard, !heard
	now := w.pulled()
	if now == before {
		return
	}
	timer.Notify(w.changed)
	if slices.Contains(now[:], heartbeat.PullsMainOnly) && w.Log != nil {
		w.Log.Warn("the server does not answer for calls of actors that have many open, which go ahead with all others now; "+
			"unless it is away, give this process the permissions of its build", "consumer", s.stream+" > "+s.name)
	}
}

// waitsWith returns the source in whose turns a message of s gets a slot. The first calls of a sender are in the main
// queues, later ones in the overflow queues, but the server may deliver them in another order. If the sender has
// exhausted the slots for overflow work, its main calls count as overflow work, too. Otherwise they would take the
// slots that are kept for other senders. The caller holds w.mu.
func (w *Puller) waitsWith(s *source, work *Message) *source {
	if s.overflow || !w.slots.exhausted(work.sender) {
		return s
	}
	return w.sources[slices.IndexFunc(w.sources, func(o *source) bool {
		return o.step == subjects.Steps-1 && o.stream == s.stream && o.priority == s.priority
	})]
}
