package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// patience is how long a patient caller waits for its acceptance: most calls have an outcome
// by then, and need no acceptance any more. It is far shorter than the time after which callers
// ask again.
const patience = 100 * time.Millisecond

// lookEvery is how far apart looks for acceptances that are due are at the least: none has a timer of its own.
const lookEvery = 50 * time.Millisecond

// acceptances are those that are held back, in the order they are due.
type acceptances struct {
	mu    sync.Mutex
	held  []acceptance
	first chan struct{} // there is one again
}

// acceptance is held back until due, or until its call is decided.
type acceptance struct {
	due      time.Time
	to       call.ReplyAddress
	key      subjects.Key
	admitted uint64
	message  envelope.Accepted // its Ref is filled in when it is sent: most never are
}

// accept tells a caller that its call is durable: at once, or, where the caller is patient, if
// the outcome is not there soon. due is when it will have an answer.
func (d *Dispatcher) accept(ctx context.Context, a *caller, s call.State, attempt call.Attempt, due call.UnixMS) {
	d.Observer.Emit(ctx, call.TraceAccepted, &s, attempt.N)
	h := acceptance{
		due: time.Now().Add(patience), to: a.in.Inbox(), key: subjects.Key{Tool: s.Tool, ID: s.ID, Part: s.Part},
		admitted: attempt.Admitted,
		message: envelope.Accepted{
			CallID: a.ask.Owner.CallID, Attempt: attempt.N, Joined: a.ask.Owner.CallID != attempt.Owner.CallID,
			DeadlineUnixMS: int64(due), ToolVersion: s.Version,
		},
	}
	if h.message.Joined && a.ask.Owner.Actor == attempt.Owner.Actor { // nobody else hears the chunks as they come
		h.message.ChunkProof = subjects.ChunkProof(attempt.Owner.Reply, s.ID)
	}
	if a.in.Patient {
		d.acceptances.hold(h)
	} else {
		d.tellAccepted(h)
	}
}

func (d *Dispatcher) tellAccepted(a acceptance) {
	a.message.Ref = a.key.Ref()
	d.Replies.Accepted(a.to, &a.message)
}

func (h *acceptances) hold(a acceptance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, a)
	if len(h.held) == 1 {
		timer.Notify(h.first)
	}
}

// due removes and returns what is due, and says when to look again.
func (h *acceptances) due(now time.Time) (due []acceptance, next time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.held) && !h.held[n].due.After(now) {
		n++
	}
	due, h.held = h.held[:n:n], h.held[n:]
	if len(h.held) == 0 {
		h.held = nil
		return due, time.Hour
	}
	return due, max(lookEvery, h.held[0].due.Sub(now))
}

// acceptLate sends the acceptances of calls that are not decided in time, until ctx ends.
func (d *Dispatcher) acceptLate(ctx context.Context) {
	keep(ctx, d.acceptances.first, func() time.Duration {
		due, next := d.acceptances.due(time.Now())
		for _, a := range due {
			if !d.guard(a.key.Part).decided(a.key.ID, a.message.Attempt, a.admitted) {
				d.safely("an acceptance", func() { d.tellAccepted(a) })
			}
		}
		return next
	})
}
