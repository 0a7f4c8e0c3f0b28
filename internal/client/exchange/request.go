package exchange

import (
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// How long after the deadline a call still waits for an answer: its caller, and, a little less, its worker. Callers are
// promised a result within 100 ms. A timer may be 20 ms late on a busy machine, and the goroutines that it wakes need
// time, too.
const (
	callerGrace = 75 * time.Millisecond
	workerGrace = callerGrace - 10*time.Millisecond
)

// lastWord is how long a caller that cancels its call still waits, for an outcome that has arrived already.
const lastWord = 50 * time.Millisecond

// When a request without an answer is sent again. It is sent soon while it is not accepted, but not before answers
// usually come, and every acceptedAgain afterwards, because the outcome may have been lost. It is sent once more right
// after the deadline.
const (
	firstResend   = 400 * time.Millisecond
	acceptedAgain = 2 * time.Second
	afterDeadline = 25 * time.Millisecond
)

// request is one request of a call, and the answers to it. Every copy of it may meet another dispatcher.
type request struct {
	Of   *Call
	Body *envelope.Request
	Send func() // sends it again; it must not wait
	// Answer gets the outcome, or nil if there is none by the deadline, or nobody waits for it any more. It has room for
	// one.
	Answer chan *envelope.Response
	// For a call with functions, with room for one each: the first acceptance, and that the connection was interrupted.
	// Nil for other calls.
	Acceptances chan *envelope.Accepted
	Missed      chan struct{}
	// Renews reports whether the token of the request is renewed if it has expired; nil is never. A refusal for that is
	// not the answer before the deadline: the request is sent again with the new token.
	Renews func() bool

	// What follows belongs to the watcher.
	launched time.Time // when it was sent first
	heard    bool      // there was an answer
	again    time.Time // when it is sent again
	times    int       // that it was sent because there was no answer
	sending  bool      // a copy waits for the connection
	accepted bool
	over     bool // it has been answered, or nobody waits for that any more
	copies   sends
	// The refusal that the caller gets if all copies are turned away: the last one, or the last one without NotStarted.
	// The copy that is answered by that may have been admitted.
	refusal *envelope.Response
}

// finish sends the outcome to the caller, or nil without one. Only the first call has an effect. Callers hold the lock
// of the watcher.
func (x *request) finish(r *envelope.Response) {
	if !x.over {
		x.over = true
		x.Answer <- r
	}
}

// turnAway counts a refusal that another dispatcher may contradict. With a nil r it counts nothing. Then it ends the
// request if all its copies were refused or lost. Callers hold the lock of the watcher.
func (x *request) turnAway(r *envelope.Response) {
	if r != nil {
		if x.refusal == nil || x.refusal.Provenance.NotStarted || !r.Provenance.NotStarted {
			x.refusal = r
		}
		x.copies.hear(r)
	}
	if r := x.refused(); r != nil && !x.renews(r) {
		x.finish(r)
	}
}

// refused returns the refusal for the caller if no further answer is to be expected, and nil otherwise. A copy that was
// lost may have been admitted, so the effect is then unknown.
func (x *request) refused() *envelope.Response {
	switch {
	case x.copies.allTurnedAway():
		return x.refusal
	case x.copies.othersAreLost() && x.refusal.Error != nil:
		r, e := *x.refusal, *x.refusal.Error
		r.Error, r.Provenance.NotStarted = e.WithEffect(envelope.EffectUnknown), false
		return &r
	}
	return nil
}

// renews reports whether r refuses an expired token that is being renewed.
func (x *request) renews(r *envelope.Response) bool {
	return x.Renews != nil && r.Error != nil && r.Error.Code == envelope.CodeExpired && x.Renews()
}

// IsProvisionalRefusal reports whether r is a refusal that another dispatcher may contradict. A dispatcher whose audit
// lags, or whose clock is ahead, sends such refusals.
func IsProvisionalRefusal(r *envelope.Response) bool {
	return r.Provenance.Attempt == 0 && !r.Provenance.Final
}

// isOfDamagedLog reports whether r refuses a request because the log of its key is damaged. Only an operator changes
// that, and the effect is unknown whatever becomes of the other copies, so the caller does not wait for them.
func isOfDamagedLog(r *envelope.Response) bool {
	return r.Error != nil && r.Error.Code == envelope.CodeLogDamaged
}

// sends counts the copies of a request and their refusals. Each copy may reach another dispatcher. The call is refused
// only if all copies were.
type sends struct {
	sent  int // also one that is being sent
	heard []heard
	able  int // of heard: those that are not for lack of capacity
}

// heard identifies a refusal, so that a duplicate of its message is not counted: the id of its audit record, and its
// number in a record of many refusals.
type heard struct {
	id      string
	counted uint64
}

// hear counts a refusal.
func (c *sends) hear(r *envelope.Response) {
	h := heard{r.Provenance.AuditEventID, r.Provenance.Counted}
	if h.id == "" || !slices.Contains(c.heard, h) { // without one it could not be recorded
		c.heard = append(c.heard, h)
		if r.Error != nil && r.Error.Code.Class() != envelope.ClassCapacity {
			c.able++
		}
	}
}

func (c *sends) allTurnedAway() bool { return len(c.heard) >= c.sent }

// perLost is the number of refusals after which one copy without an answer counts as lost. They take 7 s: a dispatcher
// that waits for a leader of the log answers by then.
const perLost = 5

// othersAreLost reports whether those copies are lost that have no answer, as enough others were refused. The
// connection of a dispatcher was interrupted, or it has died. Refusals for lack of capacity do not count: a copy may
// wait for that.
func (c *sends) othersAreLost() bool { return c.able > 0 && c.able >= perLost*(c.sent-len(c.heard)) }

// nextResend returns the pause before the request is sent again, after n copies, with left until the deadline, where
// the first answer usually comes after some time. Copies that cross their answers cost a slow bus more than the calls.
func nextResend(left time.Duration, n int, accepted bool, usual time.Duration) time.Duration {
	wait := min(max(firstResend, 2*usual)<<min(n, 3), acceptedAgain)
	if accepted {
		wait = acceptedAgain
	}
	if left += afterDeadline; wait > left {
		wait = max(left, afterDeadline)
	}
	return wait
}
