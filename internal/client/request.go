package client

import (
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// watchedCall is the part of an open call that the watcher keeps.
type watchedCall struct {
	Result chan result // has room for [maxResults]
	// Deadline is set by [inflight.Add] and [inflight.Due]. Only the goroutines that call these read it; others call
	// [inflight.Deadline].
	Deadline time.Time

	// What follows belongs to the watcher.
	place  timer.Entry[*watchedCall] // among the open ones, by when it is looked at next
	leaves bool                      // its caller goes away
	out    *sentRequest              // that is on its way; nil where none is
}

// maxResults is how many results one caller gets at the most: that of the call, and that it is given up.
const maxResults = 2

// result is what became of a call.
type result struct {
	Request  *envelope.Request
	Response *envelope.Response
	Err      error
	GivenUp  bool // the caller is to wait no longer
}

// How long after the deadline an answer is still waited for: by the caller, and, a little less, by what
// waits for it on the caller's behalf. Callers are promised 100 ms; a timer may be 20 ms late on a busy
// machine, and what it wakes needs time, too.
const (
	watchGrace = 75 * time.Millisecond
	OwnGrace   = watchGrace - 10*time.Millisecond
)

// lastWord is how long a caller that goes away is kept, for an outcome that is here already.
const lastWord = 50 * time.Millisecond

// When an unanswered request is sent again: soon while it is not even accepted, now and then
// afterwards (an outcome may have been lost on its way), and right after the deadline.
const (
	firstResend   = 400 * time.Millisecond
	acceptedAgain = 2 * time.Second
	afterDeadline = 25 * time.Millisecond
)

// sentRequest is one request of a call, and the answers to it. Every copy of it may meet another dispatcher.
type sentRequest struct {
	Of   *watchedCall
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

// ends gives the outcome to the caller, once; nil is none. Callers hold the lock of the watcher.
func (x *sentRequest) ends(r *envelope.Response) {
	if !x.over {
		x.over = true
		x.Answer <- r
	}
}

// turnAway counts a refusal that another dispatcher may contradict, or, without one, looks again at those there
// were. Callers hold the lock of the watcher.
func (x *sentRequest) turnAway(r *envelope.Response) {
	if r != nil {
		if x.refusal == nil || x.refusal.Provenance.NotStarted || !r.Provenance.NotStarted {
			x.refusal = r
		}
		x.copies.hear(r)
	}
	if r := x.turnedAway(); r != nil && !x.renews(r) {
		x.ends(r)
	}
}

// turnedAway returns the refusal that the caller gets, if all copies are turned away; else nil.
func (x *sentRequest) turnedAway() *envelope.Response {
	if x.copies.allTurnedAway() {
		return x.refusal
	}
	return nil
}

// renews reports whether r is a refusal of a token that another one takes the place of.
func (x *sentRequest) renews(r *envelope.Response) bool {
	return x.Renews != nil && r.Error != nil && r.Error.Code == envelope.CodeExpired && x.Renews()
}

// isProvisionalRefusal says whether r is no outcome but a refusal by a dispatcher that another one may contradict, as
// one whose record lags, or whose clock is ahead.
func isProvisionalRefusal(r *envelope.Response) bool {
	return r.Provenance.Attempt == 0 && !r.Provenance.Final
}

// sends counts how often a request was sent. Every copy may meet another dispatcher, so one may
// be turned away and another be taken in: only when all were turned away, the call was.
type sends struct {
	sent  int // also one that is being sent
	heard []heard
}

// heard tells a refusal from its double: the id of its record, and which one it is where the record is of many.
type heard struct {
	id      string
	counted uint64
}

// hear counts a refusal.
func (c *sends) hear(r *envelope.Response) {
	h := heard{r.Provenance.AuditEventID, r.Provenance.Counted}
	if h.id == "" || !slices.Contains(c.heard, h) { // without one it could not be recorded
		c.heard = append(c.heard, h)
	}
}

func (c *sends) allTurnedAway() bool { return len(c.heard) >= c.sent }

// nextResend says how long to wait before the request is sent for the n+1st further time, where so much time is left
// until the deadline.
func nextResend(left time.Duration, n int, accepted bool) time.Duration {
	wait := min(firstResend<<min(n, 3), acceptedAgain)
	if accepted {
		wait = acceptedAgain
	}
	if left += afterDeadline; wait > left {
		wait = max(left, afterDeadline)
	}
	return wait
}
