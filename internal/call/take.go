package call

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
