package answer

import (
	"context"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// patience is the delay of the acceptance for a caller that sent HeaderPatient. Most calls have an outcome by then, and
// need no acceptance. It is much shorter than the time after which clients send a request again.
const patience = 100 * time.Millisecond

// lookEvery is the shortest time between two checks for due acceptances, which share one timer.
const lookEvery = 50 * time.Millisecond

// acceptances holds delayed acceptances, in the order in which they are due.
type acceptances struct {
	mu    sync.Mutex
	held  []acceptance
	first chan struct{} // signals that held is no longer empty
}

// acceptance is sent when it is due, unless its attempt has been decided by then.
type acceptance struct {
	due      time.Time
	to       call.ReplyAddress
	key      subjects.Key
	admitted call.Position
	message  envelope.Accepted // Ref is set when it is sent: most acceptances are never sent
}

// Accept sends a caller the acceptance of its call: at once, or, if the request has HeaderPatient, after patience
// unless the attempt has been decided by then. due is the time by which the caller will have an answer.
func (a *Answers) Accept(ctx context.Context, c *check.Call, s call.State, attempt call.Attempt, due call.UnixMS) {
	a.Trace.Emit(ctx, call.TraceAccepted, &s, attempt.N)
	h := acceptance{
		due: time.Now().Add(patience), to: c.In.ReplyAddress(), admitted: s.At(attempt.Admitted),
		key: s.Key(),
		message: envelope.Accepted{
			CallID: c.Ask.Owner.CallID, Attempt: attempt.N, Joined: c.Ask.Owner.CallID != attempt.Owner.CallID,
			DeadlineUnixMS: int64(due), ToolVersion: s.Version,
		},
	}
	if h.message.Joined && c.Ask.Owner.Actor == attempt.Owner.Actor { // only the owner's actor receives live chunks
		h.message.ChunkProof = subjects.ChunkProof(attempt.Owner.Reply, s.ID)
	}
	if c.In.Patient {
		a.acceptances.hold(h)
	} else {
		a.tellAccepted(h)
	}
}

func (a *Answers) tellAccepted(h acceptance) {
	h.message.Ref = h.key.Ref()
	a.replies.Accepted(h.to, &h.message)
}

func (h *acceptances) hold(a acceptance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, a)
	if len(h.held) == 1 {
		timer.Notify(h.first)
	}
}

// due removes and returns the due acceptances, and returns the time until the next check.
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

// acceptLate sends delayed acceptances whose attempts are not decided when they are due, until ctx ends.
func (a *Answers) acceptLate(ctx context.Context) {
	timer.Repeat(ctx, a.acceptances.first, func() time.Duration {
		due, next := a.acceptances.due(time.Now())
		for _, h := range due {
			if !a.decisions.Decided(h.admitted, h.key.ID, h.message.Attempt) {
				a.Safely("an acceptance", func() { a.tellAccepted(h) })
			}
		}
		return next
	})
}
