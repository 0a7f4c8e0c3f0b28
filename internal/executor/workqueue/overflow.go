package workqueue

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// PullsOverflow tells whether this puller pulls from the overflow queues. It does not if the server does not answer, as
// without the permission for these queues.
func (w *Puller) PullsOverflow() heartbeat.OverflowSupport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.overflowSupport()
}

// overflowSupport is [Puller.PullsOverflow]. The caller holds w.mu.
func (w *Puller) overflowSupport() heartbeat.OverflowSupport {
	pulls := heartbeat.PullsAll
	for _, s := range w.sources {
		switch {
		case !s.overflow || s.heard:
		case s.silent:
			return heartbeat.PullsMainOnly
		default:
			pulls = heartbeat.PullsUnknown
		}
	}
	return pulls
}

// Changed returns a channel that receives a value when the result of [Puller.PullsOverflow] changes.
func (w *Puller) Changed() <-chan struct{} { return w.changed }

// answers records whether the server has answered a pull request of a source. The caller holds w.mu.
func (w *Puller) answers(s *source, heard bool) {
	s.answered = s.answered || heard
	if s.heard == heard && s.silent != heard {
		return
	}
	before := w.overflowSupport()
	s.heard, s.silent = heard, !heard
	now := w.overflowSupport()
	if now == before {
		return
	}
	timer.Notify(w.changed)
	if now == heartbeat.PullsMainOnly && w.Log != nil {
		w.Log.Warn("the server does not answer for calls of actors that have many open, which go ahead with all others now; "+
			"unless it is away, give this process the permissions of its build", "consumer", s.stream+" > "+s.name)
	}
}

// sender is the sender of a call.
type sender struct{ tenant, actor string }

// waitsWith returns the source in whose turns a message of s gets a slot. The first calls of a sender are in the main
// queues, later ones in the overflow queues, but the server may deliver them in another order. If the sender has
// exhausted the slots for overflow work, its main calls count as overflow work, too. Otherwise they would take the
// slots that are kept for other senders. The caller holds w.mu.
func (w *Puller) waitsWith(s *source, work *Message) *source {
	if s.overflow || !w.slots.exhausted(work.sender) {
		return s
	}
	return w.sources[slices.IndexFunc(w.sources, func(o *source) bool {
		return o.overflow && o.stream == s.stream && o.priority == s.priority
	})]
}
