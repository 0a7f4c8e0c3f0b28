package model

import "cmp"

// Bounds of the arrays below; the explorer panics when a configuration needs more.
const (
	maxEvents   = 16
	maxMessages = 4
	maxAttempts = 3
	maxAsks     = 4
	callers     = 3 // A, B, X
	executors   = 2
	desks       = 3 // as many as asks of one configuration that are worth exploring
	guards      = 2
)

// world is one state of the system. It is plain data without pointers or padding, so that it is
// compared, copied and hashed at once. Interned values (see table.go) stand for what is large.
// What a process does not use at the moment is zero, and processes of a kind are sorted: they
// are alike.
type world struct {
	events [maxEvents]entryID // the stored log by sequence-1, without what nobody reads again
	msgs   [maxMessages]message
	jobs   [executors]job
	desks  [desks]desk
	guards [guards]guard
	told   [callers]outcomeID // what each caller was told
	late   draftID            // a write on its way whose writer does not wait any more
	gone   uint32             // deliveries whose executor crashed, by bit
	fences uint32             // of the runs so far, by bit

	asks    [maxAsks]bool      // sent
	bound   [callers]uint8     // attempt that each caller was told it waits for
	effects [maxAttempts]uint8 // committed, by attempt-1
	runs    [maxAttempts]uint8 // started, by attempt-1
	none    [maxAttempts]bool  // "effect none" was decided, by attempt-1
	claims  [maxAttempts]uint8 // claim records beside the log; only without ClaimInLog
	seq     uint8              // last sequence of the store
	end     uint8              // of the last message of the log, whether it is an event or not; 0 when it is empty
	life    uint8              // how often the log has expired
	now     uint8              // bus time in ticks
	watches uint8              // guardians started
	epoch   uint8              // of heartbeats: odd while the executors beat
	success bool               // an attempt has succeeded
	garbled uint8              // the attempt for which a stranger wrote what cannot be decoded; 0 for none

	crashes, lost, lates, recreates, expiries, cancels, silences, lags, strangers uint8 // left to happen
}

// message is a work message: the request event, as the consumer holds it.
type message struct {
	entry entryID
	total uint8 // deliveries
	seen  uint8 // deliveries, as the consumer counts them
	acked bool
	late  bool  // stored at its deadline or later
	life  uint8 // of the log it belongs to
	epoch uint8 // of heartbeats, when it was stored
}

// manned reports whether an executor has beaten since the message was stored, or just before.
func (w *world) manned(m message) bool { return m.epoch%2 == 1 || m.epoch != w.epoch }

// beaten reports whether the executors have beaten ever since the message was stored: only then may one of them
// take its first delivery for the first.
func (w *world) beaten(m message) bool { return m.epoch%2 == 1 && m.epoch == w.epoch }

// job is an executor with a work message in hand.
type job struct {
	view  viewID    // the log as it knows it
	draft draftID   // a write without an answer
	out   outcomeID // what it is about to deliver
	at    place
	msg   uint8
	nth   uint8 // which delivery of the message
	first bool  // the consumer says that it is the first
	mine  bool  // the claim is ours
	end   Ending
}

// desk is a dispatcher with a request in hand.
type desk struct {
	view  viewID
	draft draftID
	busy  bool
	ask   uint8
	since uint8 // bus time of receipt
	_     uint8
}

// guard is a guardian or a canceller at work on an attempt.
type guard struct {
	view  viewID
	draft draftID
	msg   uint8 // of the attempt
	end   Ending
	nth   uint8 // which watch
	busy  bool
	sure  bool // that nobody has taken the attempt
}

// place is where an executor stands.
type place uint8

const (
	idle     place = iota
	taking         // about to ask call.Take
	running        // the tool may start any moment
	deciding       // the tool has ended
	replying       // an outcome stands
)

// sort brings processes of a kind into one order.
func (w *world) sort() {
	if w.jobs[1].order(w.jobs[0]) < 0 {
		w.jobs[0], w.jobs[1] = w.jobs[1], w.jobs[0]
	}
	for i := range w.desks {
		for j := i; j > 0 && w.desks[j].order(w.desks[j-1]) < 0; j-- {
			w.desks[j], w.desks[j-1] = w.desks[j-1], w.desks[j]
		}
	}
	if w.guards[1].order(w.guards[0]) < 0 {
		w.guards[0], w.guards[1] = w.guards[1], w.guards[0]
	}
}

// A delivery, a request and a watch are each in one process only, so they order the processes.
func (j job) order(o job) int     { return cmp.Compare(j.name(), o.name()) }
func (d desk) order(o desk) int   { return cmp.Compare(d.rank(), o.rank()) }
func (g guard) order(o guard) int { return cmp.Compare(g.nth, o.nth) }

func (d desk) rank() int {
	if !d.busy {
		return -1
	}
	return int(d.ask)
}

// name numbers the delivery that the executor works on; 0 when it is idle.
func (j job) name() uint8 {
	if j.at == idle {
		return 0
	}
	return j.msg*perMessage + j.nth
}

// perMessage bounds the deliveries of one message, for names.
const perMessage = 8
