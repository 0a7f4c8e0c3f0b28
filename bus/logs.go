package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// openLogs are the logs with an open attempt, as a follower has read them. [call.State.Allows] judges the next event by
// them. A log that is not bound is nil.
type openLogs map[logKey]*call.State

type logKey struct{ tool, id string }

// closedLogs are logs without an open attempt that a follower had to read. The value is true if the log is not bound:
// then an event of it counts which is not bound either. Otherwise no claim and no decision counts until a dispatcher
// writes to the log again. Without this, each further event of such a log would have the whole log read, while all
// events behind it wait.
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
func (k logKey) clone() logKey { return logKey{strings.Clone(k.tool), strings.Clone(k.id)} }

// fold returns the log after e, which is stored at seq; ok is false if the log does not allow e, or ctx has ended.
func (l openLogs) fold(ctx context.Context, f *Follower, e call.Event, seq uint64) (after call.State, ok bool) {
	key := logKey{e.State.Tool, e.State.ID}
	before, known := l[key]
	bound := e.State.Bound()
	switch {
	case e.Kind == call.Requested || e.Kind == call.Joined: // dispatchers alone write them
		delete(f.closed, key)
	case !known:
		if !f.counts(ctx, key, e, seq) {
			return call.State{}, false
		}
	case before != nil && before.Allows(e) != nil, before == nil && bound:
		return call.State{}, false
	}
	after = call.Fold(e, seq)
	if _, stray := f.closed[key]; !stray {
		l.keep(key, known, after)
	}
	return after, true
}

func (l openLogs) keep(key logKey, known bool, s call.State) {
	if !s.Last().Open() {
		delete(l, key)
		return
	}
	if !known {
		key = key.clone()
	}
	if l[key] = nil; s.Bound() {
		l[key] = &s
	}
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
	case s.Last().Open():
		f.logs.keep(key, false, *s)
	default:
		f.closed.put(key, !s.Bound())
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
	key := subjects.Key{Tool: e.State.Tool, ID: e.State.ID, Part: f.part}
	tries := wait.Retry{Pause: beforePause, Try: beforeTry, MaxTry: beforeMost}
	err := tries.Until(ctx, func(ctx context.Context) (done bool, err error) {
		s, err = kv.Before(ctx, f.stream, key, seq, f.Passes)
		return err == nil || form.Unreadable(err) || errors.Is(err, kv.ErrOverlong), err
	})
	if err != nil && !form.Unreadable(err) {
		return nil
	}
	return &s
}
