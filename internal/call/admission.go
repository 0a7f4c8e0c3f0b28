package call

import (
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// AdmitRequest holds the facts of a request that [Admit] needs. Pinned is used only if the request opens the log.
type AdmitRequest struct {
	Owner       Owner
	Pinned      Pinned
	Fingerprint string
	Deadline    UnixMS
	Priority    envelope.Priority
	Step        int    // of the queue, see subjects.Queue
	Ignored     string // see [Attempt]
	Now         UnixMS
	Nonce       string
	Strict      bool // see [Attempt]
	Writes      bool // see [Attempt]
}

// AdmitAction is the action that [Admit] selects.
type AdmitAction int

// Values of [AdmitAction].
const (
	Write  AdmitAction = iota + 1 // write Event; then the call is accepted
	Await                         // wait for the open attempt to which the call id belongs
	Join                          // write a Joined event, then as Await
	Replay                        // answer with the outcome of a decided attempt
	Refuse                        // answer with Code; write nothing
)

// AdmitResult is the result of [Admit]: the action, its attempt, and the event to write or the code of the refusal.
type AdmitResult struct {
	Do      AdmitAction
	Attempt int
	Event   Event
	Code    envelope.Code
}

// Admit returns the action for a request for the call with the log s. The rules, in order: a request with another
// fingerprint is refused; a call id that belongs to an attempt stays with it; an open attempt is joined; a final
// outcome is replayed; after a retryable outcome the next attempt is opened.
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

// taken returns the number of attempts that an executor may have started. Other attempts do not count towards
// MaxAttempts: callers would use up their key with retries while the deployment has no executors.
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
		Step: ask.Step, Strict: ask.Strict, Writes: ask.Writes, Ignored: ask.Ignored,
	})
	return AdmitResult{Do: Write, Attempt: n, Event: Event{Kind: Requested, Attempt: n, Nonce: ask.Nonce, State: next}}
}

// JoinAll returns the event that joins callIDs to the open attempt n of s, and the ids for which it has no room. One
// event joins all of them, so a thousand joiners cost few writes. An id that belongs to the attempt already, or occurs
// twice, takes no room.
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

// WorkDelivery is the delivery of a work message to an executor: its attempt, its sequence, and the number of
// deliveries.
type WorkDelivery struct {
	Attempt    int
	Admitted   uint64
	Deliveries int // 1 only if it is certain that this is the first delivery
	Now        UnixMS
	By         string // this executor's instance
	Nonce      string // nonce of the claim to write
	Alone      bool   // no other call runs in this executor
	// Gone reports whether an executor instance is known to be gone. It may return true late, but never for a live
	// executor, whose claim must not be taken over.
	Gone func(instance string) bool
}

// NextStep is the next step of an executor with a work message.
type NextStep int

// Values of [NextStep]. Only TakeClaim and Run lead to a run of the tool.
const (
	Drop       NextStep = iota + 1 // the attempt is no longer in the log: ack, do nothing else
	Adopt                          // decided: send the stored outcome, ack
	Expire                         // past its deadline: decide a timeout
	TakeClaim                      // write the claim Event, then run
	Run                            // run at once; no claim is needed
	WaitClaim                      // another executor runs it, or may have run it: nak, check again later
	AskTool                        // claimer gone, rerun not allowed: ask the lookup, else effect unknown
	DeadLetter                     // poison call: store a dead letter, then decide it as lost
)

// Take returns the next step with a work message of the log s, and the claim event for TakeClaim. On a first delivery
// s may be the state in the message: the compare-and-set of the next write fails if the log has changed.
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
	case a.Claim != nil && a.Poison():
		return DeadLetter, Event{}
	case a.Claim == nil && s.MayRunAgain() && p.Deliveries <= 1:
		return Run, Event{}
	case a.Claim == nil && !s.MayRunAgain() && a.Undecoded: // it may have run already
		return WaitClaim, Event{}
	}
	return TakeClaim, claim(s, a, p)
}

func claim(s State, a Attempt, p WorkDelivery) Event {
	c := Claim{By: p.By, Nonce: p.Nonce, Count: 1, At: p.Now}
	if a.Claim != nil {
		c.Count, c.Alone = a.Claim.Count+1, a.Claim.Alone
	}
	if p.Alone {
		c.Alone++
	}
	next := s.with(a.N, func(a *Attempt) { a.Claim = &c })
	return Event{Kind: Claimed, Attempt: a.N, Nonce: p.Nonce, State: next}
}

// Fence returns the fencing token of a run that starts with state s: the sequence of the claim, or that of the work
// message if no claim is needed. Every run has another one, and it grows from run to run.
func Fence(s State, p WorkDelivery) uint64 {
	if a, ok := s.Attempt(p.Attempt); ok && a.claimedBy(p.Nonce) {
		return a.Claim.Fence
	}
	return p.Admitted
}

// Fence returns the fencing token of the newest run of a that the log shows.
func (a Attempt) Fence() uint64 {
	if a.Claim != nil {
		return a.Claim.Fence
	}
	return a.Admitted
}

// Sender is the sender of a call or a service request, according to its subject, which server permissions enforce. For
// a call, Tenant and Actor are names, or "" if a name cannot be decoded from the subject. For a service request, they
// are the encoded tokens of the subject.
type Sender struct {
	Tenant, Actor string
}

// Family returns the sender that a decoded sender takes turns as: the family of its actor, see [subjects.Family].
func (s Sender) Family() Sender { return Sender{s.Tenant, subjects.Family(s.Actor)} }

// Credential holds the token of a service request, and the user of the connection that sent it, as reported by the
// NATS server; "" if the server does not report it.
type Credential struct {
	Token, User string
	Reply       string // subject of the answer
	Request     string // id of the request, which its copies share; "" from clients of earlier builds
}

// IncomingRequest is the request of a call as it was received from the bus.
type IncomingRequest struct {
	Subject     string
	From        Sender
	Tool        string // the tool in the subject; "" if it cannot be decoded
	Misnamed    error  // error of subjects.ParseCall for an invalid subject
	ContentType string
	InputRef    string
	Body        []byte
	Reply       string
	Token       string    // of the sender
	Received    time.Time // bus time; set by the caller of Dispatcher.Handle
	// Patient means that the caller needs no acceptance if the outcome comes soon.
	Patient bool
	// Waits notifies the intake that the rest of the handling mostly waits, so that it can pass on the next request of
	// the sender; may be nil.
	Waits func()
}

// OnlyWaits calls Waits if it is not nil.
func (in *IncomingRequest) OnlyWaits() {
	if in.Waits != nil {
		in.Waits()
	}
}

// ReplyAddress returns the address of the answers to the sender.
func (in *IncomingRequest) ReplyAddress() ReplyAddress {
	return ReplyAddress{Reply: in.Reply, ContentType: in.ContentType}
}
