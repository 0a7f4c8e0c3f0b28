package streaming

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// frameCost is what keeping a frame costs beside its body.
const frameCost = 128

// noCount means that an outcome says nothing of chunks.
const noCount = -1

// assembly puts the frames of a call back in order. It is pure: no clock, no locks, no I/O. Frames
// come in by offer and supply, chunks go out by advance.
type assembly struct {
	limit int // of bytes

	run    Run
	next   int64  // the index that advance yields next
	after  uint64 // hint for where the frame with it is stored
	frames []held // sorted by first; none lies wholly before next
	bytes  int    // their costs
	left   strand // what was being read before, for as long as nothing of run was yielded

	stored int64 // all indexes below are stored: a later frame has been seen
	seen   int64 // all indexes below exist, though perhaps not stored yet
	doubts int   // how often there was reason to think that live frames got lost
	probed int   // the doubts that the source has dispelled

	ended bool // the outcome is known
	want  envelope.Chunks
	hash  *digest // of what was yielded; nil if not yielded from index 0
}

// strand is how far a run was yielded.
type strand struct {
	run  Run
	next int64
	hash *digest
}

// held is a frame that waits to be yielded.
type held struct {
	Frame
	cost int
}

// action is what a Reader has to do next.
type action int

const (
	actWait  action = iota + 1 // until something is offered
	actYield                   // a chunk is ready
	actFetch                   // ask the source: the chunk is there
	actProbe                   // ask the source: the chunk may be there
	actEnd                     // all chunks were yielded
)

// start begins a run at index. From index 0 on the digest can be checked.
func (a *assembly) start(run Run, index int64) {
	if a.next > 0 {
		a.left = strand{a.run, a.next, a.hash}
	}
	a.run, a.next, a.after = run, index, 0
	a.frames, a.bytes = nil, 0
	a.stored, a.seen, a.probed = 0, 0, a.doubts
	a.hash = nil
	if index == 0 {
		a.hash = newDigest()
	}
}

// offer takes a live frame. Frames of older runs, known ones, and, once the outcome is known,
// those of any other run are ignored; a newer run starts anew. What does not fit is dropped, and
// fetched later.
func (a *assembly) offer(run Run, f Frame) {
	newer := run.Compare(a.run)
	if f.Len() == 0 || newer < 0 || newer > 0 && a.ended {
		return
	}
	if newer > 0 {
		a.start(run, 0)
	}
	a.stored = max(a.stored, f.first)
	a.seen = max(a.seen, f.end)
	if len(a.frames) == 0 || a.bytes+len(f.body)+frameCost <= a.limit {
		a.insert(f)
	}
}

// doubt notes that live frames may have been lost.
func (a *assembly) doubt() { a.doubts++ }

// query is what the source is asked.
type query struct {
	at     Position
	doubts int
}

func (a *assembly) query() query {
	return query{Position{Run: a.run, Index: a.next, After: a.after}, a.doubts}
}

// supply takes the source's answer. The zero Frame dispels the doubts that were there when it was
// asked. Answers for a run that has been left meanwhile are ignored.
func (a *assembly) supply(q query, f Frame) error {
	switch {
	case q.at.Run != a.run:
	case f.Len() == 0:
		a.probed = max(a.probed, q.doubts)
	case !f.has(a.next):
		return fmt.Errorf("%w: the source gave %s for %d", ErrCorrupt, f.indexes(), a.next)
	default:
		a.insert(f)
	}
	return nil
}

// insert keeps f unless it brings nothing new. Of frames that overlap both are kept: advance
// skips what it has yielded.
func (a *assembly) insert(f Frame) {
	if f.end <= a.next {
		return
	}
	at, found := slices.BinarySearchFunc(a.frames, f.first, func(h held, first int64) int {
		return cmp.Compare(h.first, first)
	})
	if found && a.frames[at].end >= f.end {
		return
	}
	h := held{f, len(f.body) + frameCost}
	a.frames = slices.Insert(a.frames, at, h)
	a.bytes += h.cost
}

// finish notes the outcome: which run it is of and what it says of its chunks. That run is the
// only true one, even if a newer one was seen.
func (a *assembly) finish(run Run, want envelope.Chunks) {
	if a.ended {
		return
	}
	a.ended, a.want = true, want
	if want.Count == noCount || run == a.run {
		return
	}
	back := a.left
	if a.next > 0 || run != back.run { // otherwise whoever reads has seen nothing of another run
		a.start(run, 0)
		return
	}
	a.start(run, back.next)
	a.hash = back.hash
}

// advance drops what is no longer needed and tells what to do next.
func (a *assembly) advance() action {
	for len(a.frames) > 0 && a.frames[0].end <= a.next {
		a.drop()
	}
	limited := a.ended && a.want.Count != noCount
	switch {
	case limited && a.next >= a.want.Count:
		return actEnd
	case len(a.frames) > 0 && a.frames[0].first <= a.next:
		return actYield
	case limited || !a.ended && a.next < a.stored:
		return actFetch
	case a.ended:
		return actEnd
	case a.next < a.seen || a.probed < a.doubts:
		return actProbe
	}
	return actWait
}

// drop removes the first frame, whose chunks were all yielded.
func (a *assembly) drop() {
	a.after = max(a.after, a.frames[0].after)
	a.bytes -= a.frames[0].cost
	a.frames[0] = held{}
	a.frames = a.frames[1:]
}

// yield returns the next chunk after advance has said actYield.
func (a *assembly) yield() (envelope.ChunkKind, jsontext.Value, error) {
	f := a.frames[0].skip(a.next)
	kind, data, err := f.pop()
	if err != nil {
		return "", nil, err
	}
	a.frames[0].Frame = f
	a.next++
	if a.hash != nil {
		a.hash.add(data)
	}
	return kind, data, nil
}

// intact tells after advance has said actEnd whether what was yielded is what the outcome says.
func (a *assembly) intact() bool {
	if a.hash == nil || a.want.Count != a.hash.count || a.want.Digest == "" {
		return true
	}
	return a.hash.chunks() == a.want
}
