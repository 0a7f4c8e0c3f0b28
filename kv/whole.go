package kv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The server drops a block of a stream in which it finds a damaged message, and answers as if its messages had expired
// (decision record 78). Its compare-and-set then succeeds as for an empty log. So a dispatcher compares each log that
// it reads or writes with the newest event that it knows.

// doubt is the time after which a log that seems to lack its newest event is read again. Meanwhile a server learns that
// it is no longer the leader, and a follower finds a lost end.
const doubt = 1200 * time.Millisecond

// maxFound is the number of damaged logs that a process remembers. Others are read twice each time.
const maxFound = 100_000

// found holds the logs that are known to be damaged.
type found struct {
	mu   sync.Mutex
	logs map[logKey]newest
}

func (f *found) has(key logKey, n newest) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logs[key] == n
}

func (f *found) put(key logKey, n newest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logs == nil {
		f.logs = map[logKey]newest{}
	}
	if len(f.logs) < maxFound {
		f.logs[key.clone()] = n
	}
}

func (f *found) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.logs)
}

// errBehind means that a partition ends before an event that this process knows of. Its follower finds that, too.
var errBehind = fmt.Errorf("%w: the call log ends before an event that is known", ErrStreamRolledBack)

// whole reads a log. It returns a [call.DamagedError] if the last valid event is older than the newest one that is
// known, also if the log is read again after a while. An event is no longer valid if one that it depends on was lost.
func (l *Log) whole(ctx context.Context, key subjects.Key) (StoredEvent, error) {
	known := l.parts[key.Partition].kept
	if known == nil {
		return l.last(ctx, key)
	}
	id, of := keptIDOf(key.Tool, key.ID), logKey{key.Tool, key.ID}
	n := known.get(id) // before the log is read: it may grow meanwhile
	s, err := l.last(ctx, key)
	if err != nil || !n.after(s.valid()) {
		return s, err
	}
	if !l.found.has(of, n) {
		if !timer.Sleep(ctx, min(doubt, l.answer/2)) {
			return StoredEvent{}, fmt.Errorf("read call log: %w", context.Cause(ctx))
		}
		n = known.get(id)
		if s, err = l.last(ctx, key); err != nil || !n.after(s.valid()) {
			return s, err
		}
		if err := l.reaches(ctx, key.Partition, n); err != nil {
			return StoredEvent{}, fmt.Errorf("read call log: %w", err)
		}
		l.found.put(of, n)
	}
	return StoredEvent{}, &call.DamagedError{
		Ref: key.Ref(), End: s.End, Newest: n.seq, Expires: time.Unix(int64(later(n.expires, known.set())), 0),
	}
}

// Newest returns the low half of the sequence of the newest event of a log that this process knows of, or false if it
// knows none that has not expired.
func (l *Log) Newest(tool, id string) (seq uint32, known bool) {
	_, in := l.part(id)
	n := in.kept.get(keptIDOf(tool, id))
	return n.seq, n != newest{}
}

// last reads the last event of a log. It returns a [call.DamagedError] if an operator has ended the key.
func (l *Log) last(ctx context.Context, key subjects.Key) (StoredEvent, error) {
	s, err := l.reader.Last(ctx, key)
	if err == nil && s.refused {
		return StoredEvent{}, &call.DamagedError{Ref: key.Ref(), End: s.End, Refused: true}
	}
	return s, err
}

// reaches returns errBehind if a partition ends before an event: its server has lost the end of all logs.
func (l *Log) reaches(ctx context.Context, p subjects.Partition, n newest) error {
	stream, err := l.js.Stream(ctx, p.Stream())
	if err == nil && n.after(stream.CachedInfo().State.LastSeq) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return errBehind
	}
	return err
}

// keptID returns the id of the log of e. It is the zero value in a process that may not read the log.
func (p part) keptID(e call.Event) (id keptID) {
	if p.kept != nil {
		id = keptIDOf(e.State.Tool, e.State.ID)
	}
	return id
}

// stale reports whether the log of e is known to have an event after the state that e was derived from.
func (p part) stale(id keptID, e call.Event) bool {
	return p.kept != nil && p.kept.get(id).after(e.State.Seq)
}

func isDamaged(err error) bool {
	_, ok := errors.AsType[*call.DamagedError](err)
	return ok
}

// wrote stores that e is the newest event of its log.
func (l *Log) wrote(in part, id keptID, e call.Event, seq uint64) {
	if in.kept != nil {
		now := in.kept.now()
		in.kept.put(id, seq, now, now.Add(l.expiry.TTL(e)))
	}
}

// Forget drops what this process knows of the log beside the log itself. Call it after [ErrStreamRolledBack].
func (l *Log) Forget() {
	for _, p := range l.parts {
		if p.kept != nil {
			p.kept.forget()
		}
	}
	l.found.forget()
	l.heads.forget()
}

// expiresAt returns when the server drops a stored event, by its header. Without one it keeps the event for ever.
func expiresAt(h nats.Header, stored time.Time) time.Time {
	life, err := strconv.Atoi(h.Get(jetstream.MsgTTLHeader))
	if err != nil {
		return time.Unix(1<<32-1, 0)
	}
	return stored.Add(time.Duration(life) * time.Second)
}
