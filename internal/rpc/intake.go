package rpc

import (
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Bounds of the desks of one dispatcher. A message counts as its body and perMessage.
const (
	maxRequests        = 16 * 1024 // that wait or are worked on
	maxTenantRequests  = 12 * 1024
	maxActorRequests   = 4 * 1024
	maxRequestBytes    = 128 << 20
	maxTenantBytes     = 96 << 20
	maxActorBytes      = 32 << 20
	maxHandlers        = 1024 // requests that are worked on at once, those that wait for the log included
	maxTenantHandlers  = 768
	maxActorHandlers   = 128
	maxQuestions       = 256 // that are answered at once
	maxTenantQuestions = 128
	maxActorQuestions  = 32
	maxAsked           = 4 * 1024 // questions that wait or are answered
	maxTenantAsked     = 2 * 1024
	maxActorAsked      = 512
	maxAskedBytes      = 32 << 20
	maxTurned          = 4 * 1024 // that are still to be told that they are turned away
	maxTenantTurned    = 1024
	maxActorTurned     = 256
	leastOfActor       = 16 // that find room although others have filled that of the tenant
	perMessage         = 1 << 10
	turnBytes          = 8 << 10 // that a sender is taken up in a turn
)

// forRequests are the bounds of requests. So few of one actor are checked at once that half of the processors are left
// to others, to begin with whoever takes messages off the connection.
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

// forTurned bounds how many are told that they are turned away: one actor is told one after the other.
func forTurned() flow.QueueLimits {
	return flow.QueueLimits{
		Actor:   flow.Load{Items: maxActorTurned, Slots: 1},
		Tenant:  flow.Load{Items: maxTenantTurned},
		All:     flow.Load{Items: maxTurned, Slots: maxActorQuestions},
		Quantum: turnBytes,
	}
}

// intake takes in messages of one kind, so that no sender keeps another waiting: each is put into a queue at once,
// where senders take turns, or turned away. Who is turned away is told so, in a second queue, as far as that has room.
type intake[M any] struct {
	taken    *flow.Lane[M]
	turned   *flow.Lane[turnedAway[M]]
	overload flow.OverloadLog
}

// turnedAway is a message that found no room.
type turnedAway[M any] struct {
	message M
	full    *flow.QueueFullError
}

// newIntake returns a desk that has messages handled, and those that are turned away told so. handle may call waits
// once it only waits for others.
func newIntake[M any](log *slog.Logger, kind string, limits flow.QueueLimits, handle func(m M, waits func()),
	tell func(M, *flow.QueueFullError)) *intake[M] {
	return &intake[M]{
		taken:    flow.NewLane(limits, handle),
		turned:   flow.NewLane(forTurned(), func(t turnedAway[M], _ func()) { tell(t.message, t.full) }),
		overload: flow.OverloadLog{Log: log, Kind: kind},
	}
}

// put takes in a message of so many bytes, or turns it away after strip has taken its body from it.
func (d *intake[M]) put(from flow.Sender, m M, size int, strip func()) {
	full, over := errors.AsType[*flow.QueueFullError](d.taken.Put(from, m, int64(size)+perMessage))
	if over {
		strip()
		d.turn(from, m, full)
	}
}

// turn turns a message away.
func (d *intake[M]) turn(from flow.Sender, m M, full *flow.QueueFullError) {
	dropped := d.turned.Put(from, turnedAway[M]{m, full}, perMessage) != nil
	d.overload.Note(from, dropped)
}

// filter is how much need be read of a message: all, or what it takes to tell its sender that there is no room, or
// nothing, which is counted.
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

// sender is whose message has a subject.
func sender(subject string) flow.Sender {
	tenant, actor, _ := subjects.CallerTokens(subject)
	return flow.Sender{Tenant: tenant, Actor: actor}
}

// stop takes no more, and returns when what is here is handled; what is not taken up within so long is dropped.
func (d *intake[M]) stop(within time.Duration) {
	d.taken.Stop(within)
	d.turned.Stop(0)
}
