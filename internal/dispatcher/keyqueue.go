package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// logKey names a log.
type logKey struct{ tool, id string }

// keyQueue is the queue of one key in this dispatcher: requests that wait for their turn at the
// log, and callers that wait for an outcome. Whoever finds it idle serves it, so a dispatcher
// has at most one write in flight per key.
type keyQueue struct {
	logKey
	joins    int             // join events written, for the linger
	replayed map[int]sharing // by attempt, of this batch

	mu       sync.Mutex
	busy     bool
	gone     bool // removed from the dispatcher's lines
	state    call.State
	arrivals []*caller
	arriving int              // what these take, in bytes
	waiting  map[int][]waiter // by attempt
}

// maxArriving bounds what the requests take that wait for their turn in one line: nobody waits in
// their stead, so that they would pile up while the log does not answer.
const maxArriving = 32 << 20

// size is about what the request takes.
func (a *caller) size() int { return len(a.in.Body) + 1<<10 }

// arrive adds requests that wait for their turn. Callers hold l.mu.
func (l *keyQueue) arrive(as ...*caller) {
	l.arrivals = append(l.arrivals, as...)
	for _, a := range as {
		l.arriving += a.size()
	}
}

// leaveAll takes all that have arrived. Callers hold l.mu.
func (l *keyQueue) leaveAll() []*caller {
	all := l.arrivals
	l.arrivals, l.arriving = nil, 0
	return all
}

// admit puts a into the line of its key and serves the line unless somebody does. A caller whose request
// does not fit in asks again.
func (d *Dispatcher) admit(ctx context.Context, a *caller) {
	for {
		l := d.queueOf(a.ask.Pinned.Tool, a.ask.Pinned.ID)
		l.mu.Lock()
		if l.gone {
			l.mu.Unlock()
			continue
		}
		if l.arriving+a.size() > maxArriving {
			l.mu.Unlock()
			return
		}
		l.arrive(a)
		serve := !l.busy
		l.busy = true
		l.mu.Unlock()
		if serve {
			d.serve(ctx, l)
		}
		return
	}
}

func (d *Dispatcher) queueOf(tool, id string) *keyQueue {
	key := logKey{tool, id}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.keyQueues[key]
	if l == nil {
		l = &keyQueue{logKey: key}
		d.keyQueues[key] = l
	}
	return l
}

// known returns the line of a key; nil where there is none.
func (d *Dispatcher) known(tool, id string) *keyQueue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keyQueues[logKey{tool, id}]
}

// serve answers all that arrive until none is left.
func (d *Dispatcher) serve(ctx context.Context, l *keyQueue) {
	for {
		batch, s := l.take()
		if len(batch) == 0 {
			d.retire(l)
			return
		}
		d.serveBatch(ctx, l, s, batch)
	}
}

// batchTime bounds the work on one batch while the log cannot be reached: callers without an
// answer by then ask again.
const batchTime = 10 * time.Second

func (d *Dispatcher) serveBatch(ctx context.Context, l *keyQueue, s call.State, batch []*caller) {
	if len(batch) > 1 { // the steps of one request have bounds of their own
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, batchTime)
		defer cancel()
	}
	if s, joining := d.placeAll(ctx, l, s, batch); len(joining) > 0 {
		d.join(ctx, l, s, joining)
	}
	d.recordReplays(l)
}

// placeAll places every request and returns those that are still to be joined to the open attempt.
func (d *Dispatcher) placeAll(ctx context.Context, l *keyQueue, s call.State, batch []*caller) (call.State, []*caller) {
	var joining []*caller
	fresh := false // the log has been read, or found to have moved, since all of the batch are in the line
	for _, a := range batch {
		var join bool
		if s, join = d.placeOne(ctx, l, s, a, &fresh); join {
			joining = append(joining, a)
		}
	}
	return s, joining
}

// take returns what has arrived and the log as it is known; without arrivals the line is idle.
func (l *keyQueue) take() ([]*caller, call.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.leaveAll()
	if len(batch) == 0 {
		l.busy = false
	}
	return batch, l.state
}

// retire removes the line when nobody needs it.
func (d *Dispatcher) retire(l *keyQueue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy && len(l.arrivals) == 0 && len(l.waiting) == 0 && !l.gone {
		l.gone = true
		delete(d.keyQueues, l.logKey)
	}
}

// learn keeps the newest state of the log.
func (l *keyQueue) learn(s call.State) call.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Seq > l.state.Seq {
		l.state = s
	}
	return l.state
}

// found keeps what the log was read to be. It may be less than what was known before: then the log
// has lost its end, which a server that does not sync at once may after a power cut, or it has
// expired. Callers that wait for what is gone ask again, and are admitted anew.
func (l *keyQueue) found(known uint64, s call.State) call.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.Seq > l.state.Seq:
		l.state = s
	case s.Seq < known && known == l.state.Seq:
		l.state, l.waiting = s, nil
	}
	return l.state
}

// placeOne is place; a request that panics it is answered, and those behind it have their turn.
func (d *Dispatcher) placeOne(
	ctx context.Context, l *keyQueue, s call.State, a *caller, fresh *bool,
) (after call.State, join bool) {
	after = s
	defer func() {
		if p := recover(); p != nil {
			d.failed(ctx, p, a.request)
		}
	}()
	return d.place(ctx, l, s, a, fresh)
}

// place does for one request what call.Admit says, and returns the log as it is after it. It
// reports whether the request is still to be joined to the open attempt.
func (d *Dispatcher) place(ctx context.Context, l *keyQueue, s call.State, a *caller, fresh *bool) (call.State, bool) {
	if a.known.Seq > s.Seq {
		s = l.learn(a.known)
	}
	for {
		if err := d.matchFingerprint(ctx, s, a); err != nil { // no answer: the caller asks again
			d.Logger.Warn("input not compared", "call", l.id, "err", err)
			return s, false
		}
		v := call.Admit(s, a.ask)
		var again bool
		if refusal := outside(a.principal, s, v); refusal != nil {
			if s, again = d.turnDown(ctx, l, s, a, refusal); again {
				*fresh = true
				continue
			}
			return s, false
		}
		switch v.Do {
		case call.Join:
			refusal := d.noJoin(a)
			if refusal == nil {
				return s, a.stored != nil
			}
			s, again = d.turnDown(ctx, l, s, a, refusal)
		case call.Await:
			if *fresh {
				d.await(ctx, l, s, v.Attempt, a)
			} else {
				s, again = d.reread(ctx, l, s), true
			}
		case call.Replay:
			d.replay(ctx, l, s, v.Attempt, a)
		case call.Refuse:
			s, again = d.turnDown(ctx, l, s, a, envelope.NewError(v.Code, "").WithRetryAfter(retryHint(v.Code)))
		case call.Write:
			s, again = d.open(ctx, l, s, a, v)
		}
		if !again {
			return s, false
		}
		*fresh = true
	}
}

// noJoin says why a request may not join now.
func (d *Dispatcher) noJoin(a *caller) *envelope.Error {
	switch {
	case d.late(a):
		return tooLate()
	case d.Capacity.LogFull(): // a join takes room, too
		return storeFull()
	}
	return nil
}

// reread returns the log as it is. A caller that asks again has missed something, and this
// dispatcher, which still takes the attempt for open, may have missed the same.
func (d *Dispatcher) reread(ctx context.Context, l *keyQueue, s call.State) call.State {
	last, err := d.CallLog.Read(ctx, s.Tool, s.ID)
	if err != nil {
		d.Logger.Warn("call log not read", "call", l.id, "err", err) // s is what is known
		return s
	}
	return l.found(s.Seq, last.State)
}
