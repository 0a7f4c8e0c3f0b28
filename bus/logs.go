package bus

import (
	"context"
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

// fold returns the log after e, which is stored at seq; ok is false if the log does not allow e, or ctx has ended.
func (l openLogs) fold(ctx context.Context, f *Follower, e call.Event, seq uint64) (after call.State, ok bool) {
	key := logKey{e.State.Tool, e.State.ID}
	before, known := l[key]
	bound := e.State.Bound()
	switch {
	case e.Kind == call.Requested || e.Kind == call.Joined: // dispatchers alone write them
	case !known:
		s := f.before(ctx, e, seq)
		if s.Allows(e) != nil {
			return call.State{}, false
		}
	case before != nil && before.Allows(e) != nil, before == nil && bound:
		return call.State{}, false
	}
	after = call.Fold(e, seq)
	l.keep(key, known, after)
	return after, true
}

func (l openLogs) keep(key logKey, known bool, s call.State) {
	if !s.Last().Open() {
		delete(l, key)
		return
	}
	if !known { // the names are parts of a whole message, which is not kept for them
		key = logKey{strings.Clone(key.tool), strings.Clone(key.id)}
	}
	if l[key] = nil; s.Bound() {
		l[key] = &s
	}
}

// How often a log is read until there is an answer, and how long each try may take: all events behind it wait.
const (
	beforePause = 20 * time.Millisecond
	beforeTry   = 200 * time.Millisecond
	beforeMost  = 2 * time.Second
)

// before reads the log of e as it was before. That is needed where no attempt of it is known to be open: its request
// came before the follower began, or has expired, or e is not allowed. It gives up when ctx ends.
func (f *Follower) before(ctx context.Context, e call.Event, seq uint64) (s call.State) {
	key := subjects.Key{Tool: e.State.Tool, ID: e.State.ID, Part: f.part}
	retry := wait.Retry{Pause: beforePause, Try: beforeTry, MaxTry: beforeMost}
	_ = retry.Until(ctx, func(ctx context.Context) (done bool, err error) {
		s, err = kv.Before(ctx, f.stream, key, seq, f.Passes)
		return err == nil || form.Unreadable(err), err
	})
	return s
}
