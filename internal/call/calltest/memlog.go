// Package calltest implements a call log in memory, for tests of code that writes decisions to a call log.
package calltest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Log is a call log in memory with the semantics of the real one: compare-and-set per call, one
// sequence over all calls. The zero value is empty and ready.
type Log struct {
	mu      sync.Mutex
	seq     uint64
	entries []stored
	watch   []func(call.Entry)
	before  func(call.Event) error
	reads   func() error
	lost    func(call.Event) bool
}

// Before sets a function that Write calls first (nil: none). If f returns an error, Write returns it and writes
// nothing. f may itself write, to simulate races.
func (l *Log) Before(f func(call.Event) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = f
}

// BeforeRead sets a function that Read calls first (nil: none). If f returns an error, Read returns it.
func (l *Log) BeforeRead(f func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads = f
}

// Lost sets a function that reports whether the acknowledgement of a write is lost (nil: never). Then Write returns
// call.ErrUnsure although it has written.
func (l *Log) Lost(f func(call.Event) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = f
}

type stored struct {
	key   string
	seq   uint64
	entry call.Entry
}

// Watch calls f with every event that is written from now on, in order.
func (l *Log) Watch(f func(call.Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = append(l.watch, f)
}

// Write implements outcome.Log.
func (l *Log) Write(_ context.Context, e call.Event, body []byte) (call.State, error) {
	l.mu.Lock()
	before, lost := l.before, l.lost
	l.mu.Unlock()
	if before != nil {
		if err := before(e); err != nil {
			return call.State{}, err
		}
	}
	entry, watch, err := l.append(e, body)
	if err != nil {
		return call.State{}, err
	}
	for _, f := range watch {
		f(entry)
	}
	if lost != nil && lost(e) {
		return call.State{}, call.ErrUnsure
	}
	return entry.State, nil
}

func (l *Log) append(e call.Event, body []byte) (call.Entry, []func(call.Entry), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last(e.State.Tool, e.State.ID)
	if last.State.Seq != e.State.Seq {
		return call.Entry{}, nil, &call.ConflictError{State: last.State}
	}
	if err := last.State.Allows(e); err != nil && !e.State.Empty() { // an event without attempts only uses up a sequence
		panic(err) // the functions of package call return no such event
	}
	l.seq++
	entry := call.Entry{State: call.Fold(e, l.seq), Kind: e.Kind, Attempt: e.Attempt, Body: slices.Clone(body),
		Time: time.Now()}
	l.entries = append(l.entries, stored{e.State.Tool + "." + e.State.ID, l.seq, entry})
	return entry, slices.Clone(l.watch), nil
}

// Read implements outcome.Log.
func (l *Log) Read(_ context.Context, tool, id string) (call.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads != nil {
		if err := l.reads(); err != nil {
			return call.Entry{}, err
		}
	}
	return l.last(tool, id), nil
}

func (l *Log) last(tool, id string) call.Entry {
	for _, s := range slices.Backward(l.entries) {
		if s.key == tool+"."+id {
			return s.entry
		}
	}
	return call.Entry{}
}

// Get implements outcome.Log.
func (l *Log) Get(_ context.Context, at call.Position) (call.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.entries {
		if s.seq == at.Seq {
			return s.entry, nil
		}
	}
	return call.Entry{}, nil
}

// Entries returns all events, oldest first.
func (l *Log) Entries() []call.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]call.Entry, len(l.entries))
	for i, s := range l.entries {
		all[i] = s.entry
	}
	return all
}

// LoseTail removes the events after sequence seq, as a power cut of a server that has not synced them does. Their
// sequences are used again.
func (l *Log) LoseTail(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.DeleteFunc(l.entries, func(s stored) bool { return s.seq > seq })
	l.seq = min(l.seq, seq)
}

// Drop removes the events of a kind, as if they had expired.
func (l *Log) Drop(kind call.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.DeleteFunc(l.entries, func(s stored) bool { return s.entry.Kind == kind })
}

// DropUntil removes the events up to sequence seq, as if they had expired.
func (l *Log) DropUntil(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.DeleteFunc(l.entries, func(s stored) bool { return s.seq <= seq })
}
