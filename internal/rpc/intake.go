package rpc

import (
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Limits of the queues of one dispatcher for requests. The size of a message is that of its body plus perMessage.
const (
	maxRequests        = 16 * 1024 // call requests that wait or are handled
	maxTenantRequests  = 12 * 1024
	maxActorRequests   = 4 * 1024
	maxRequestBytes    = 128 << 20
	maxTenantBytes     = 96 << 20
	maxActorBytes      = 32 << 20
	maxHandlers        = 1024 // handled at the same time, including those that wait for the call log
	maxTenantHandlers  = 768
	maxActorHandlers   = 128
	maxQuestions       = 256 // service requests that are handled at the same time
	maxTenantQuestions = 128
	maxActorQuestions  = 32
	maxAsked           = 4 * 1024 // service requests that wait or are handled
	maxTenantAsked     = 2 * 1024
	maxActorAsked      = 512
	maxAskedBytes      = 32 << 20
	maxTurned          = 4 * 1024 // rejected messages whose senders are still to be answered
	maxTenantTurned    = 1024
	maxActorTurned     = 256
	leastOfActor       = 16 // messages of an actor that are accepted although the limit of the tenant is reached
	perMessage         = 1 << 10
	turnBytes          = 8 << 10 // bytes of one sender in a turn
)

// forRequests returns the limits of call requests. The requests of one actor run on at most half of the processors, so
// that others are left, also for reading from the connection.
func forRequests() flow.QueueLimits {
	processors := int64(runtime.GOMAXPROCS(0))
	return flow.QueueLimits{
		Actor: flow.Load{
			Items: maxActorRequests, Bytes: maxActorBytes, Slots: maxActorHandlers, Running: max(1, processors/2),
		},
		Tenant:  flow.Load{Items: maxTenantRequests, Bytes: maxTenantBytes, Slots: maxTenantHandlers},
		All:     flow.Load{Items: maxRequests, Bytes: maxRequestBytes, Slots: maxHandlers, Running: processors},
		Quantum: turnBytes, Least: leastOfActor,
	}
}

func forQuestions() flow.QueueLimits {
	return flow.QueueLimits{
		Actor:   flow.Load{Items: maxActorAsked, Bytes: maxAskedBytes / 4, Slots: maxActorQuestions},
		Tenant:  flow.Load{Items: maxTenantAsked, Bytes: maxAskedBytes / 2, Slots: maxTenantQuestions},
		All:     flow.Load{Items: maxAsked, Bytes: maxAskedBytes, Slots: maxQuestions},
		Quantum: turnBytes, Least: leastOfActor,
	}
}

// forTurned returns the limits of the answers to rejected messages. Those to one actor are sent one after the other.
func forTurned() flow.QueueLimits {
	return flow.QueueLimits{
		Actor:   flow.Load{Items: maxActorTurned, Slots: 1},
		Tenant:  flow.Load{Items: maxTenantTurned},
		All:     flow.Load{Items: maxTurned, Slots: maxActorQuestions},
		Quantum: turnBytes,
	}
}

// intake queues messages of one kind so that no sender delays others: it puts each message into a queue in which
// senders take turns, or rejects it, without blocking. A second queue holds the rejected messages whose senders get an
// answer; if that is full, too, a message is dropped.
type intake[M any] struct {
	taken    *flow.Lane[M]
	turned   *flow.Lane[turnedAway[M]]
	overload flow.OverloadLog
}

// turnedAway is a rejected message, with the limit that was reached.
type turnedAway[M any] struct {
	message M
	full    *flow.QueueFullError
}

// newIntake returns an intake that calls handle for each accepted message, and tell for rejected ones. handle may call
// waits when from then on it only waits and needs no processor.
func newIntake[M any](log *slog.Logger, kind string, limits flow.QueueLimits, handle func(m M, waits func()),
	tell func(M, *flow.QueueFullError)) *intake[M] {
	return &intake[M]{
		taken:    flow.NewLane(limits, handle),
		turned:   flow.NewLane(forTurned(), func(t turnedAway[M], _ func()) { tell(t.message, t.full) }),
		overload: flow.OverloadLog{Log: log, Kind: kind},
	}
}

// put queues a message of size bytes. If there is no room, it calls strip, which must release the body, and rejects the
// message.
func (d *intake[M]) put(from flow.Sender, m M, size int, strip func()) {
	full, over := errors.AsType[*flow.QueueFullError](d.taken.Put(from, m, int64(size)+perMessage))
	if over {
		strip()
		d.turn(from, m, full)
	}
}

// turn rejects a message: it queues the answer to its sender, or drops it.
func (d *intake[M]) turn(from flow.Sender, m M, full *flow.QueueFullError) {
	dropped := d.turned.Put(from, turnedAway[M]{m, full}, perMessage) != nil
	d.overload.Note(from, dropped)
}

// filter returns how much of a message must be read: all of it, only its head to answer that it was rejected, or
// nothing. A message that is not read is counted as dropped.
func (d *intake[M]) filter(subject []byte, size int) FilterAction {
	if !d.overload.Any() {
		return FilterTake
	}
	from := sender(string(subject))
	switch {
	case d.taken.Fits(from, int64(size)+perMessage):
		return FilterTake
	case d.turned.Fits(from, perMessage):
		return FilterTakeHead
	}
	d.overload.Note(from, true)
	return FilterDrop
}

// sender returns the sender that a subject names: the tenant, and the family of the actor. A token can be narrowed to
// any number of sub-actors, which have one turn together.
func sender(subject string) flow.Sender {
	tenant, actor, _ := subjects.CallerTokens(subject)
	return flow.Sender{Tenant: tenant, Actor: subjects.FamilyToken(actor)}
}

// stop rejects new messages and returns when the queued ones are handled. Messages whose handling has not started after
// within are dropped.
func (d *intake[M]) stop(within time.Duration) {
	d.taken.Stop(within)
	d.turned.Stop(0)
}
