package call

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// AdmitRequest is a request as admission sees it. The facts count only when it opens the log.
type AdmitRequest struct {
	Owner       Owner
	Pinned      Pinned
	Fingerprint string
	Deadline    UnixMS
	Priority    envelope.Priority
	Overflow    bool   // as InVain
	Ignored     string // see Attempt
	Now         UnixMS
	Nonce       string
	Strict      bool // see [Attempt]
}

// AdmitAction is what Admit decided.
type AdmitAction int

// What can become of a request.
const (
	Write  AdmitAction = iota + 1 // write Event, then it is accepted
	Await                         // bound to an attempt that is in flight
	Join                          // write a Joined event for it, then as Await
	Replay                        // bound to, or answered by, a decided attempt
	Refuse                        // answer Code; nothing is written
)

// AdmitResult is the answer of Admit: the admission, the attempt it speaks of, and the event to
// write or the code to refuse with.
type AdmitResult struct {
	Do      AdmitAction
	Attempt int
	Event   Event
	Code    envelope.Code
}

// Admit says what becomes of a request for the call whose log is s The rules, in
// order: another fingerprint is refused; a call id keeps the attempt it is bound to; an open
// attempt is joined; a final outcome is replayed; a retryable one opens the next attempt.
func Admit(s State, ask AdmitRequest) AdmitResult {
	if s.Empty() {
		return open(s, ask, ask.Pinned)
	}
	if s.Fingerprint != ask.Fingerprint {
		return AdmitResult{Do: Refuse, Code: envelope.CodeKeyReused}
	}
	if a, bound := s.AttemptOf(ask.Owner.CallID); bound {
		if a.Open() {
			return AdmitResult{Do: Await, Attempt: a.N}
		}
		return AdmitResult{Do: Replay, Attempt: a.N}
	}
	last := s.Last()
	switch {
	case last.Open() && (len(last.Joined) >= MaxJoined || s.spaceLeft() < joinSize(ask.Owner.CallID)):
		return AdmitResult{Do: Refuse, Code: envelope.CodeJoiners}
	case last.Open():
		return AdmitResult{Do: Join, Attempt: last.N}
	case s.Final():
		return AdmitResult{Do: Replay, Attempt: last.N}
	case s.taken() >= MaxAttempts:
		return AdmitResult{Do: Refuse, Code: envelope.CodeAttempts}
	}
	v := open(s, ask, s.Pinned)
	if v.Event.State.size() > maxOpenBytes {
		return AdmitResult{Do: Refuse, Code: envelope.CodeAttempts}
	}
	return v
}

// taken returns how many attempts an executor may have taken. One that nobody can have taken uses up nothing of
// the key: callers would lose it by asking again while the deployment could not serve them.
func (s State) taken() (n int) {
	for _, a := range s.Attempts {
		if a.Open() || !a.Decision.NotTaken {
			n++
		}
	}
	return n
}

func open(s State, ask AdmitRequest, facts Pinned) AdmitResult {
	n := len(s.Attempts) + 1
	next := s
	next.Pinned = facts
	next.Attempts = append(append([]Attempt(nil), s.Attempts...), Attempt{
		N: n, Owner: ask.Owner, Nonce: ask.Nonce, At: ask.Now, Deadline: ask.Deadline, Priority: ask.Priority,
		Overflow: ask.Overflow, Strict: ask.Strict, Ignored: ask.Ignored,
	})
	return AdmitResult{Do: Write, Attempt: n, Event: Event{Kind: Requested, Attempt: n, Nonce: ask.Nonce, State: next}}
}

// JoinAll returns the event that binds callIDs to the open attempt n of s, and those that found no
// room any more. One event carries everyone waiting, so a thousand joiners cost a few writes;
// a caller that is bound already, or asks twice, takes no room.
func JoinAll(s State, n int, callIDs []string, nonce string) (e Event, left []string) {
	room := s.spaceLeft()
	next := s.with(n, func(a *Attempt) {
		a.Joined = slices.Clone(a.Joined)
		bound := map[string]bool{a.Owner.CallID: true}
		for _, id := range a.Joined {
			bound[id] = true
		}
		for _, id := range callIDs {
			switch {
			case bound[id]:
			case len(a.Joined) >= MaxJoined, joinSize(id) > room:
				left = append(left, id)
			default:
				a.Joined, bound[id] = append(a.Joined, id), true
				room -= joinSize(id)
			}
		}
	})
	return Event{Kind: Joined, Attempt: n, Nonce: nonce, State: next}, left
}

// WorkDelivery is a work message as an executor holds it: the attempt it was written for, its own
// sequence, and how often it was delivered.
type WorkDelivery struct {
	Attempt    int
	Admitted   uint64
	Deliveries int // 1 only where nobody can have been handed it before
	Now        UnixMS
	By         string // this executor's instance
	Nonce      string // of the claim it would write
	// Gone reports whether an executor instance is known to be gone. It may say no too long,
	// never yes too early: a claim of a live executor is not taken over.
	Gone func(instance string) bool
}

// NextStep is what an executor does next with a work message.
type NextStep int

// The steps. Only TakeClaim and Run lead to a run.
const (
	Drop       NextStep = iota + 1 // not this log's message any more: ack, run nothing, decide nothing
	Adopt                          // decided: deliver the stored outcome, ack
	Expire                         // past its deadline: decide a timeout, run nothing
	TakeClaim                      // write the claim Event, then run
	Run                            // run at once; no claim is needed
	WaitClaim                      // another executor runs it, or may have: hand back, look again later
	AskTool                        // claimer gone, running again not allowed: lookup may confirm, else unknown
	DeadLetter                     // poison: keep it in DEAD, then decide it lost
)

// Take says what to do with a work message of the log s. On a first
// delivery s may be the state in the message itself: the compare-and-set of what follows finds
// out whether the log has moved.
func Take(s State, p WorkDelivery) (NextStep, Event) {
	a, ok := s.Attempt(p.Attempt)
	switch {
	case !ok || a.Admitted != p.Admitted:
		return Drop, Event{}
	case !a.Open():
		return Adopt, Event{}
	case p.Now >= a.Deadline:
		return Expire, Event{}
	case a.claimedBy(p.Nonce):
		return Run, Event{}
	case a.Claim != nil && !p.Gone(a.Claim.By):
		return WaitClaim, Event{}
	case a.Claim != nil && !s.MayRunAgain():
		return AskTool, Event{}
	case a.Claim != nil && a.Claim.Count >= MaxClaims:
		return DeadLetter, Event{}
	case a.Claim == nil && s.MayRunAgain() && p.Deliveries <= 1:
		return Run, Event{}
	case a.Claim == nil && !s.MayRunAgain() && a.Undecoded: // it may have run
		return WaitClaim, Event{}
	}
	return TakeClaim, claim(s, a, p)
}

func claim(s State, a Attempt, p WorkDelivery) Event {
	count := 1
	if a.Claim != nil {
		count += a.Claim.Count
	}
	next := s.with(a.N, func(a *Attempt) { a.Claim = &Claim{By: p.By, Nonce: p.Nonce, Count: count, At: p.Now} })
	return Event{Kind: Claimed, Attempt: a.N, Nonce: p.Nonce, State: next}
}

// Fence returns the fence of a run that starts on state s: the claim's sequence, or that of the
// work message where no claim is needed. It is the run's own, and grows from one to the next.
func Fence(s State, p WorkDelivery) uint64 {
	if a, ok := s.Attempt(p.Attempt); ok && a.claimedBy(p.Nonce) {
		return a.Claim.Fence
	}
	return p.Admitted
}

// Fence returns the fence of the newest run of a that the log knows of.
func (a Attempt) Fence() uint64 {
	if a.Claim != nil {
		return a.Claim.Fence
	}
	return a.Admitted
}
