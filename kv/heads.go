package kv

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	// largeBody is the size in bytes from which on the body of an event is not read for the sake of its header.
	largeBody = 32 << 10
	// headRoom bounds the memory of [heads], in about half as many bytes as it may take.
	headRoom = 8 << 20
)

// heads holds the last events of logs with large bodies, as far as a process has read or followed them, without the
// bodies. The server has no read of a header alone, so without it each question about the state of a call would read
// the whole input of the call.
type heads struct {
	mu         sync.Mutex
	young, old map[logKey]head // old is forgotten when young is full
	taken      int             // bytes of young, roughly
}

// head is the last event of a log without its body, and the place of the newest event with a large body.
type head struct {
	call.Entry
	large place
}

func newHeads() *heads { return &heads{young: map[logKey]head{}} }

// put stores e, whose body has size bytes, if that is large, or if an earlier event of the log was.
func (h *heads) put(e call.Entry, size int) {
	e.Body = nil
	h.mu.Lock()
	defer h.mu.Unlock()
	if size < largeBody && len(h.young)+len(h.old) == 0 { // no call had a large body, as usual
		return
	}
	last, ok := h.get(logKey{e.State.Tool, e.State.ID})
	switch {
	case size >= largeBody:
		last.large = place{e.State.Seq, e.Time}
	case !ok:
		return
	}
	last.Entry = e
	takes := 1 << 10
	for _, a := range e.State.Attempts {
		takes += 512 + 64*len(a.Joined)
	}
	if h.taken += takes; h.taken > headRoom {
		h.old, h.young, h.taken = h.young, map[logKey]head{}, takes
	}
	h.young[logKey{e.State.Tool, e.State.ID}] = last
}

func (h *heads) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.young, h.old, h.taken = map[logKey]head{}, nil, 0
}

// get returns the head of a log. Callers hold h.mu.
func (h *heads) get(key logKey) (last head, ok bool) {
	if last, ok = h.young[key]; !ok {
		last, ok = h.old[key]
	}
	return last, ok
}

// Followed lets the log know of an event that a follower has read. See [Log.Head].
func (l *Log) Followed(o FollowedEvent) {
	l.heads.put(call.Entry{State: o.State, Kind: o.Kind, Attempt: o.Attempt, Time: o.Time}, o.Size)
	if p, in := l.part(o.State.ID); in.kept != nil && p == o.State.Partition {
		id := keptIDOf(o.State.Tool, o.State.ID)
		in.kept.put(id, o.Seq, o.Time, o.Expires)
		if list := in.kept.listed.Load(); list != nil {
			list.followed(id, o.Seq, o.Time)
		}
	}
}

// Head is [Log.Read], but the entry may lack its body. If this process knows a log with a large body, Head asks only
// whether another event has followed.
func (l *Log) Head(ctx context.Context, tool, id string) (call.Entry, error) {
	if known, ok := l.known(tool, id); ok {
		ctx, cancel := context.WithTimeout(ctx, l.answer)
		defer cancel()
		moved, err := l.local.moved(ctx, known.State)
		if err != nil || !moved {
			return known.Entry, err
		}
	}
	return l.Read(ctx, tool, id)
}

// StoredAt returns the time of the event of the log s at a sequence, or the zero time if it has expired. It asks
// nothing if this process knows the event as one with a large body.
func (l *Log) StoredAt(ctx context.Context, s call.State, seq uint64) (time.Time, error) {
	if known, ok := l.known(s.Tool, s.ID); ok && known.large.seq == seq {
		return known.large.at, nil
	}
	e, err := l.Get(ctx, s.At(seq))
	if err != nil || e.State.Tool != s.Tool || e.State.ID != s.ID { // a server that has lost its end uses sequences again
		return time.Time{}, err
	}
	return e.Time, nil
}

// known returns the head of a log, unless it is not known or has expired.
func (l *Log) known(tool, id string) (last head, ok bool) {
	if l.local == nil {
		return last, false
	}
	l.heads.mu.Lock()
	last, ok = l.heads.get(logKey{tool, id})
	l.heads.mu.Unlock()
	life := l.expiry.TTL(call.Event{Kind: last.Kind, Attempt: last.Attempt, State: last.State})
	return last, ok && time.Since(last.Time) < life
}

// moved reports whether the log s has a later event.
func (s streams) moved(ctx context.Context, last call.State) (bool, error) {
	key := subjects.Key{Tool: last.Tool, ID: last.ID, Partition: last.Partition}
	_, err := s.parts[last.Partition].GetMsg(ctx, last.Seq+1, jetstream.WithGetMsgSubject(key.Filter()))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil, err
}
