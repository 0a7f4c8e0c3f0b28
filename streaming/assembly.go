package streaming

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// frameCost is the estimated memory, in bytes, that a kept frame takes in addition to its body.
const frameCost = 128

// noCount is the count of an outcome that does not name its chunks.
const noCount = -1

// assembly puts the frames of a call back in order. It is pure: no clock, no locks, no I/O. Frames
// come in by offer and supply, chunks go out by advance.
type assembly struct {
	limit int // largest value of bytes; a single larger frame is kept all the same

	run    Run
	next   int64  // index of the chunk to yield next
	after  uint64 // hint: stream sequence before the frame with that chunk
	frames []held // sorted by first; each holds chunks from next on
	bytes  int    // sum of the costs of frames
	left   strand // progress in the former run; finish returns to it if nothing of run was yielded

	stored int64 // all indexes below are stored: a later frame has been seen
	seen   int64 // all indexes below exist, though perhaps not stored yet
	doubts int   // number of events after which live frames may have been lost
	probed int   // value of doubts up to which the source has confirmed that nothing was lost

	ended bool // the outcome is known
	want  envelope.Chunks
	hash  *digest // of the yielded chunks; nil if the first of them was not index 0
}

// strand is the progress in one run: the index to yield next, and the digest of the chunks before it.
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

// action is the next step of a Reader.
type action int

const (
	actWait  action = iota + 1 // wait until a frame is offered
	actYield                   // yield the chunk that is ready
	actFetch                   // fetch from the source: the chunk must be stored
	actProbe                   // fetch from the source: the chunk may be stored
	actEnd                     // end: all chunks were yielded
)

// start begins a run at index. The digest can be checked only if index is 0.
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

// offer takes a live frame. It ignores known frames, frames of older runs, and, once the outcome is known, frames of
// any other run. A frame of a newer run starts that run. A frame that exceeds the limit is dropped, and fetched later.
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

// query is a request to the source: the position, and the value of doubts when the request was made.
type query struct {
	at     Position
	doubts int
}

func (a *assembly) query() query {
	return query{Position{Run: a.run, Index: a.next, After: a.after}, a.doubts}
}

// supply takes the answer of the source to q. The zero Frame confirms that no chunk was lost before q was made. If the
// reader has started another run since, supply ignores the answer.
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

// insert keeps f unless all its chunks are known. It keeps frames that overlap: advance and yield skip the chunks that
// were yielded before.
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

// finish takes the run that the outcome names, and the count and digest of its chunks. Only the chunks of that run are
// valid, even if a newer run was seen.
func (a *assembly) finish(run Run, want envelope.Chunks) {
	if a.ended {
		return
	}
	a.ended, a.want = true, want
	if want.Count == noCount || run == a.run {
		return
	}
	back := a.left
	if a.next > 0 || run != back.run { // otherwise no chunk of another run was yielded since: go on where back ended
		a.start(run, 0)
		return
	}
	a.start(run, back.next)
	a.hash = back.hash
}

// advance drops frames that were yielded completely, and returns the next step.
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

// intact reports whether the yielded chunks have the count and digest of the outcome, or whether that cannot be
// checked. Call it after advance has returned actEnd.
func (a *assembly) intact() bool {
	if a.hash == nil || a.want.Count != a.hash.count || a.want.Digest == "" {
		return true
	}
	return a.hash.chunks() == a.want
}
