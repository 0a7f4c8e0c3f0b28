package kv

import (
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// openLogs are the logs with an open attempt, as a follower has read them.
type openLogs map[logKey]opened

// opened is a log with an open attempt. If the log is bound, [call.State.Allows] judges the next event by its state.
// Otherwise state is nil, and n and admitted name the attempt that the last request or join was of.
type opened struct {
	state    *call.State
	n        int
	admitted uint64
}

// allows reports whether e may be the next event of the log. If that is not bound, a claim must be of the attempt that
// a dispatcher opened: an executor can invent any other.
func (o opened) allows(e call.Event) bool {
	if o.state != nil {
		return o.state.Allows(e) == nil
	}
	a, _ := e.State.Attempt(e.Attempt)
	return !e.State.Bound() && (e.Kind == call.Decided || a.N == o.n && a.Admitted == o.admitted)
}

type logKey struct{ tool, id string }

// closedLogs are logs whose executors' events a follower judges without a state: it had to read the log and found no
// open attempt, or the log is not bound and holds a claim of an attempt that no dispatcher opened. The value is true if
// the log is not bound: then a decision counts which is not bound either. Otherwise no claim and no decision counts
// until a dispatcher writes to the log again. Without this, each further event of such a log would have the whole log
// read, while all events behind it wait.
type closedLogs map[logKey]bool

// maxClosed bounds [closedLogs]. Where there is no room, any other log is forgotten.
const maxClosed = 4096

func (c closedLogs) put(key logKey, unbound bool) {
	for other := range c {
		if len(c) < maxClosed {
			break
		}
		delete(c, other)
	}
	c[key.clone()] = unbound
}

// clone returns a copy of names that are parts of a whole message, which is not kept for them.
func (k logKey) clone() logKey {
	both := k.tool + k.id
	return logKey{both[:len(k.tool)], both[len(k.tool):]}
}

// fold returns the log after e, which is stored at seq; ok is false if the log does not allow e, or ctx has ended.
func (l openLogs) fold(ctx context.Context, f *Follower, e call.Event, seq uint64) (after call.State, ok bool) {
	key := logKey{e.State.Tool, e.State.ID}
	before, known := l[key]
	switch {
	case e.Kind == call.Requested || e.Kind == call.Joined: // dispatchers alone write them
		delete(f.closed, key)
	case !known:
		if !f.counts(ctx, key, e, seq) {
			return call.State{}, false
		}
	case !before.allows(e):
		if before.state == nil && e.Kind == call.Claimed {
			delete(l, key)
			f.closed.put(key, true)
		}
		return call.State{}, false
	}
	after = e.Folded(seq)
	if _, stray := f.closed[key]; !stray {
		l.keep(key, known, e, after)
	}
	return after, true
}

// keep keeps the log after e, if its attempt is open.
func (l openLogs) keep(key logKey, known bool, e call.Event, after call.State) {
	a, _ := after.Attempt(e.Attempt)
	if !a.Open() || !after.Last().Open() {
		delete(l, key)
		return
	}
	if !known {
		key = key.clone()
	}
	o := opened{n: a.N, admitted: a.Admitted}
	if after.Bound() {
		o.state = new(after)
	}
	l[key] = o
}

// counts reports whether the log allows e, which is stored at seq, by reading it.
func (f *Follower) counts(ctx context.Context, key logKey, e call.Event, seq uint64) bool {
	if unbound, ok := f.closed[key]; ok {
		return unbound && !e.State.Bound() && (e.Kind == call.Decided || expired(e))
	}
	s := f.before(ctx, e, seq)
	switch {
	case s == nil:
		f.closed.put(key, false)
		return false
	case s.Empty():
		f.closed.put(key, !e.State.Bound())
		return expired(e)
	case !s.Bound(): // the attempt of the first request, which may have ended since
		f.closed.put(key, true)
		return e.Kind == call.Decided && s.Allows(e) == nil
	case s.Last().Open():
		f.logs[key.clone()] = opened{state: s}
	default:
		f.closed.put(key, false)
	}
	return s.Allows(e) == nil
}

// expired reports whether e, before which nothing is left of its log, may be of a request that has expired: a request
// outlives its deadline, and in a bound log it lives as long as the outcomes. An executor invented any other such
// event. No state is kept of either, so that events of a million logs cost no memory.
func expired(e call.Event) bool {
	a, ok := e.State.Attempt(e.Attempt)
	return ok && !e.State.Bound() && a.Due().Before(time.Now())
}

// How often a log is read until there is an answer, and how long each try may take: all events behind it wait.
const (
	beforePause = 20 * time.Millisecond
	beforeTry   = 200 * time.Millisecond
	beforeMost  = 10 * time.Second
)

// before reads the log of e as it was before. That is needed where no attempt of it is known to be open: its request
// came before the follower began, or has expired, or e is not allowed. It returns nil if the log can never be read, or
// ctx ends.
func (f *Follower) before(ctx context.Context, e call.Event, seq uint64) *call.State {
	var s call.State
	tries := timer.Backoff{Pause: beforePause, Try: beforeTry, MaxTry: beforeMost}
	err := tries.Until(ctx, func(ctx context.Context) (done bool, err error) {
		s, err = Before(ctx, f.stream, e.State.Key(), seq, f.Passes)
		return err == nil || format.IsUnsupported(err) || errors.Is(err, ErrOverlong), err
	})
	if err != nil && !format.IsUnsupported(err) {
		return nil
	}
	return &s
}
