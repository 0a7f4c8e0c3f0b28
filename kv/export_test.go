package kv

import (
	"context"
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

func NewKept(times func() (now, steady time.Time)) Kept { return Kept{newKept(times)} }

func (k Kept) Put(call, seq uint64, expires time.Time) {
	k.ids.put(keptIDOf("tool", strconv.FormatUint(call, 10)), seq, k.ids.now(), expires)
}

func (k Kept) Len() int { return k.ids.len() }

// KeptSteps is the number of steps in a list of kept calls.
const KeptSteps = keptSteps

// KeptList is a list of kept calls.
type KeptList = keptList

// OpenKeptList opens a list without its run.
func (l *Log) OpenKeptList(ctx context.Context, logger *slog.Logger) *KeptList {
	list, _ := l.openKept(ctx, logger, false)
	return list
}

// Write does once what run does.
func (l *keptList) Write(ctx context.Context) error {
	for _, k := range l.parts {
		if k.rewrite {
			if err := k.makeAgain(ctx); err != nil {
				return err
			}
			k.rewrite = false
		}
		if err := k.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// WriteStep writes a step after the newest that is known, as run does when it makes the list again.
func (l *keptList) WriteStep(ctx context.Context) bool {
	k := l.parts[0]
	return k.warn(k.write(ctx, keptMessage{number: k.last.number + 1, from: 1}))
}

// WriteNoSlot writes the next step as run does, without its slot: as a process that is killed in between.
func (l *keptList) WriteNoSlot(ctx context.Context) error {
	k := l.parts[0]
	step, n := k.step()
	k.drop(n)
	return k.write(ctx, step)
}

// WriteSlots writes all slots, as run does after a step of the server's clock.
func (l *keptList) WriteSlots(ctx context.Context) error { return l.parts[0].writeSlots(ctx) }

// KnownSeq returns the newest event of a log that this process knows of.
func (l *Log) KnownSeq(tool, id string) uint32 {
	_, in := l.part(id)
	return in.kept.get(keptIDOf(tool, id)).seq
}

// Keep makes an event known, as if it had been followed.
func (l *Log) Keep(call, seq uint64, expires time.Time) {
	ids := l.parts[0].kept
	ids.put(keptIDOf("tool", strconv.FormatUint(call, 10)), seq, ids.now(), expires)
}

// Kept returns the number of calls that this process knows of.
func (l *Log) Kept() int { return l.parts[0].kept.len() }
