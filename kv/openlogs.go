package kv

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// knownLogs are the logs whose next events a follower can judge without reading them.
type knownLogs struct {
	logs   openLogs     // as they were observed
	closed closedLogs   // others that were read
	seed   maphash.Seed // of the hashes of their facts
}

// openLogs are the logs with an open attempt, as a follower has read them.
type openLogs map[logKey]opened

// opened is a log with an open attempt. If the log is bound, [call.State.Allows] judges the next event by its state.
// Otherwise state is nil, and the hash of the facts is enough: a state takes a thousand bytes.
type opened struct {
	state *call.State
	facts uint64
}

// allows reports whether e may be the next event of the log.
func (k *knownLogs) allows(o opened, e call.Event) bool {
	if o.state != nil {
		return o.state.Allows(e) == nil
	}
	return e.State.FactsHash(k.seed) == o.facts
}

// opened returns what is kept of a log with the state s.
func (k *knownLogs) opened(s call.State) opened {
	if s.Bound() {
		return opened{state: &s}
	}
	return opened{facts: s.FactsHash(k.seed)}
}

type logKey struct{ tool, id string }

// closedLogs are logs whose executors' events a follower judges without a state: it had to read the log and found no
// open attempt. The value is true if the request has expired and an executor's event counted all the same, see
// [expired]: then a decision counts, too. Otherwise no claim and no decision counts until a dispatcher writes to the
// log again. Without this, each further event of such a log would have the whole log read, while all events behind it
// wait.
type closedLogs map[logKey]bool

// maxClosed bounds [closedLogs]. Where there is no room, any other log is forgotten.
const maxClosed = 4096

func (c closedLogs) put(key logKey, requestExpired bool) {
	for other := range c {
		if len(c) < maxClosed {
			break
		}
		delete(c, other)
	}
	c[key.clone()] = requestExpired
}

// clone returns a copy of names that are parts of a whole message, which is not kept for them.
func (k logKey) clone() logKey {
	both := k.tool + k.id
	return logKey{both[:len(k.tool)], both[len(k.tool):]}
}

// fold returns the log after e, which is stored at a place; ok is false if the log does not allow e, or ctx has ended.
func (f *Follower) fold(ctx context.Context, e call.Event, in place) (after call.State, ok bool) {
	key := logKey{e.State.Tool, e.State.ID}
	before, known := f.logs[key]
	switch {
	case e.Kind == call.Requested || e.Kind == call.Joined: // dispatchers alone write them
		delete(f.closed, key)
	case !known && !f.counts(ctx, key, e, in) || known && !f.allows(before, e):
		return call.State{}, false
	}
	after = e.Folded(in.seq)
	if _, stray := f.closed[key]; !stray {
		f.keep(key, known, e, after)
	}
	return after, true
}

// keep keeps the log after e, if its attempt is open.
func (k *knownLogs) keep(key logKey, known bool, e call.Event, after call.State) {
	a, _ := after.Attempt(e.Attempt)
	if !a.Open() || !after.Last().Open() {
		delete(k.logs, key)
		return
	}
	if !known {
		key = key.clone()
	}
	k.logs[key] = k.opened(after)
}

// counts reports whether the log allows e, which is stored at a place, by reading it.
func (f *Follower) counts(ctx context.Context, key logKey, e call.Event, in place) bool {
	if requestExpired, ok := f.closed[key]; ok {
		return requestExpired && !e.State.Bound() && (e.Kind == call.Decided || expired(e, in.at))
	}
	s := f.before(ctx, e, in.seq)
	switch {
	case s == nil:
		f.closed.put(key, false)
		return false
	case s.Empty():
		ok := expired(e, in.at)
		f.closed.put(key, ok)
		return ok
	case s.Last().Open():
		f.logs[key.clone()] = f.opened(*s)
	default:
		f.closed.put(key, false)
	}
	return s.Allows(e) == nil
}

// expired reports whether e, before which nothing is left of its log, may be of a request that has expired since e was
// stored: a request outlives its deadline by [call.Expiry], and in a bound log it lives as long as the outcomes. An
// executor invented any other such event. No state is kept of either, so that events of a million logs cost no memory.
func expired(e call.Event, stored time.Time) bool {
	grace := call.DefaultExpiry.Grace // half of it is for clocks that differ, and for late writers
	a, ok := e.State.Attempt(e.Attempt)
	return ok && !e.State.Bound() && stored.Before(a.Due().Add(grace/2)) && a.Due().Add(grace).Before(time.Now())
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
