package kv

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Kept returns how many logs a follower that has ended keeps a state or a note of.
func (f *Follower) Kept() int { return len(f.logs) + len(f.closed) }

// Open returns how many logs a follower that has ended takes for open.
func (f *Follower) Open() int { return len(f.logs) }

// NewFillLevel returns the fill level of a log of that size that is full to that per cent.
func NewFillLevel(size, percent int64) *FillLevel {
	g := (&Log{parts: make([]part, 1)}).FillLevel(slog.New(slog.DiscardHandler))
	g.percent[0].Store(percent)
	g.size.Store(size)
	return g
}

func (g *FillLevel) Add(of subjects.Owner, bytes int64, expires time.Time) {
	g.shares.add(of, bytes, expires)
}

func Passed(subject string, passes func(instance string) bool) bool { return passed(subject, passes) }

// Kept holds ids of calls.
type Kept struct{ ids *keptIDs }

func NewKept(now func() time.Time) Kept { return Kept{newKept(now)} }

func (k Kept) Put(call, seq uint64, expires time.Time) {
	k.ids.put(keptIDOf("tool", strconv.FormatUint(call, 10)), seq, expires)
}

func (k Kept) Len() int { return k.ids.len() }
