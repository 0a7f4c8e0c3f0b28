package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// logKey identifies a log.
type logKey struct{ tool, id string }

// keyQueue is the queue of one key in this dispatcher: the requests that wait to be placed, and the callers that wait
// for an outcome. A goroutine that adds a request to an idle queue serves it, so a dispatcher has at most one write in
// flight per key.
type keyQueue struct {
	logKey
	joins    int             // number of join events written; sets the time that join waits
	replayed map[int]sharing // replays of the current batch, by attempt

	mu       sync.Mutex
	busy     bool
	gone     bool // removed from Dispatcher.keyQueues
	state    call.State
	arrivals []arrival
	arriving int              // size of arrivals in bytes
	waiting  map[int][]waiter // by attempt
}

// arrival is a call that waits in a queue.
type arrival struct {
	*check.Call
	unsure bool          // its admission may be in the log, or come into it
	held   *flow.Counter // that counts it while it is opened
}

// maxArriving is the largest size, in bytes, of the requests that wait in one queue. Their handlers do not block, so
// they would pile up while the log does not answer.
const maxArriving = 32 << 20

// size returns the approximate memory of the request in bytes.
func (a arrival) size() int { return len(a.In.Body) + 1<<10 }

// arrive adds requests to the queue. Callers hold l.mu.
func (l *keyQueue) arrive(as ...arrival) {
	l.arrivals = append(l.arrivals, as...)
	for _, a := range as {
		l.arriving += a.size()
	}
}

// leaveAll removes and returns all requests of the queue. Callers hold l.mu.
func (l *keyQueue) leaveAll() []arrival {
	all := l.arrivals
	l.arrivals, l.arriving = nil, 0
	return all
}

// admit adds a call to the queue of its key, and serves the queue unless another goroutine does. If the queue is full,
// the call is dropped: its client sends it again. known is the state of the log, if that has been read.
func (d *Dispatcher) admit(ctx context.Context, c *check.Call, known call.State) {
	a := arrival{Call: c}
	for {
		l := d.queueOf(a.Ask.Pinned.Tool, a.Ask.Pinned.ID)
		l.mu.Lock()
		if l.gone {
			l.mu.Unlock()
			continue
		}
		if l.arriving+a.size() > maxArriving {
			l.mu.Unlock()
			return
		}
		if known.Seq > l.state.Seq {
			l.state = known
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

// known returns the queue of a key, or nil if it has none.
func (d *Dispatcher) known(tool, id string) *keyQueue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keyQueues[logKey{tool, id}]
}

// serve handles batches of requests until the queue is empty.
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

// batchTime is the longest time for one batch if the log cannot be reached. Clients without an answer by then send
// their requests again.
const batchTime = 10 * time.Second

func (d *Dispatcher) serveBatch(ctx context.Context, l *keyQueue, s call.State, batch []arrival) {
	if len(batch) > 1 { // each step of a single request has its own timeout
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
func (d *Dispatcher) placeAll(ctx context.Context, l *keyQueue, s call.State, batch []arrival) (call.State, []arrival) {
	var joining []arrival
	fresh := false // the log has been read since the whole batch arrived
	for i := range batch {
		var join bool
		if s, join = d.placeOne(ctx, l, s, &batch[i], &fresh); join {
			joining = append(joining, batch[i])
		}
	}
	return s, joining
}

// take returns the requests that have arrived, and the newest known state of the log. If no request has arrived, it
// marks the queue as idle.
func (l *keyQueue) take() ([]arrival, call.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.leaveAll()
	if len(batch) == 0 {
		l.busy = false
	}
	return batch, l.state
}

// retire removes the queue if it is idle and no caller waits.
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

// learn stores s if it is newer than the known state, and returns the newest state.
func (l *keyQueue) learn(s call.State) call.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Seq > l.state.Seq {
		l.state = s
	}
	return l.state
}

// found stores the state s that was read from the log. It may be older than the known state: then the log has expired,
// or a server that does not sync every write has lost its end after a power cut. In that case the waiting callers are
// removed; their clients send the requests again, and they are admitted again.
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

// placeOne is place, but answers a request that makes place panic, so that the requests after it are still handled.
func (d *Dispatcher) placeOne(
	ctx context.Context, l *keyQueue, s call.State, a *arrival, fresh *bool,
) (after call.State, join bool) {
	after = s
	defer func() {
		if p := recover(); p != nil {
			d.failed(ctx, p, a.Request)
		}
	}()
	return d.place(ctx, l, s, a, fresh)
}

// place carries out the result of call.Admit for one request, and returns the state of the log after it. It returns
// true if the request must still join the open attempt.
func (d *Dispatcher) place(ctx context.Context, l *keyQueue, s call.State, a *arrival, fresh *bool) (call.State, bool) {
	for {
		v := call.Admit(s, a.Ask)
		var again bool
		if refusal := outside(a.Principal, s, v); refusal != nil {
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
				return s, a.Stored != nil
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

// outside refuses a request whose answer would be about an attempt that its bound token does not cover. That can happen
// because all calls of an actor, also in other runs, share the scope of a key.
func outside(p *auth.Principal, s call.State, v call.AdmitResult) *envelope.Error {
	if v.Do != call.Join && v.Do != call.Await && v.Do != call.Replay {
		return nil
	}
	a, ok := s.Attempt(v.Attempt)
	if !ok || check.Covers(p, a) {
		return nil
	}
	return envelope.NewError(envelope.CodeScope, fmt.Sprintf(
		"the token does not cover the call that attempt %d of this key is of: its role, run, lane or scopes are others",
		a.N)).
		WithFix("use a key of your own, or a token that covers that call")
}

// noJoin returns a refusal if the request may not join now, or nil.
func (d *Dispatcher) noJoin(a *arrival) *envelope.Error {
	switch {
	case a.Late(d.Now()):
		return check.TooLate()
	case d.Capacity.LogFull(): // a join event takes space, too
		return storeFull()
	}
	return nil
}

// reread reads the log. A caller that sends its request again has missed an answer. This dispatcher, for which the
// attempt is still open, may have missed the outcome as well.
func (d *Dispatcher) reread(ctx context.Context, l *keyQueue, s call.State) call.State {
	last, err := d.CallLog.Read(ctx, s.Tool, s.ID)
	if err != nil {
		d.Logger.Warn("call log not read", "call", l.id, "err", err) // s is the newest known state
		return s
	}
	return l.found(s.Seq, last.State)
}
