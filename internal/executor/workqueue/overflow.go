package workqueue

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// PullsOverflow says whether what goes behind is pulled here. It is not where the server does not answer, as it does
// not where the permissions of the process leave it out.
func (w *Puller) PullsOverflow() heartbeat.OverflowSupport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.overflowSupport()
}

// overflowSupport is PullsBehind. Callers hold w.mu.
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

// Changed returns a channel that receives when the result of [Puller.PullsOverflow] changes.
func (w *Puller) Changed() <-chan struct{} { return w.changed }

// answers notes whether the server has said something of a source when it was asked. Callers hold w.mu.
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

// sender is whose a call is.
type sender struct{ tenant, actor string }

// runs notes that n more calls run that are like work. Callers hold w.mu.
func (w *Puller) runs(work *Message, n int) {
	w.running = w.running.more(work.overflow, n)
	if t := w.of[work.sender].more(work.overflow, n); t.all > 0 {
		w.of[work.sender] = t
	} else {
		delete(w.of, work.sender)
	}
}

// waitsWith returns whose turns a message of s has. A sender's first calls go ahead and those after them behind, but
// the server may hand them over in another order: where those behind have all slots that they may have, what comes then
// has one of these, or those left to others would be theirs as well. Callers hold w.mu.
func (w *Puller) waitsWith(s *source, work *Message) *source {
	if t := w.of[work.sender]; s.overflow || t.overflow == 0 || t.all < w.slots-w.kept() {
		return s
	}
	return w.sources[slices.IndexFunc(w.sources, func(o *source) bool {
		return o.overflow && o.stream == s.stream && o.priority == s.priority
	})]
}
