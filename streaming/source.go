package streaming

import (
	"context"
	"errors"
)

// ErrExpired means that chunks are no longer stored: they exceeded the maximum age of the stream, or were discarded for
// newer ones.
var ErrExpired = errors.New("streaming: chunks have expired")

// Position identifies a chunk by run and index. After is a hint, the stream sequence after which its frame is stored;
// any value is safe.
type Position struct {
	Run   Run
	Index int64
	After uint64
}

// Source returns stored chunks by index.
type Source interface {
	// Fetch returns consecutive chunks of a run from at.Index on, at most maxBytes but at least one chunk. It returns the
	// zero Frame if the chunk is not stored yet, and [ErrExpired] if it is no longer stored. After [ErrUnavailable],
	// another try may help.
	Fetch(ctx context.Context, at Position, maxBytes int) (Frame, error)
}

// maxJoined is the largest number of stored frames in one Fetch. It bounds the time of a Fetch.
const maxJoined = 256

// StoreSource is a [Source] that reads the stream to which a [Writer] writes. It is stateless and safe for concurrent
// use.
type StoreSource struct {
	store   *Store
	subject func(Run) string
}

// NewStoreSource returns a Source for the runs of one call. subject returns the subject of a run.
func NewStoreSource(store *Store, subject func(Run) string) StoreSource {
	return StoreSource{store: store, subject: subject}
}

// Fetch implements [Source].
func (s StoreSource) Fetch(ctx context.Context, at Position, maxBytes int) (Frame, error) {
	c := cursor{store: s.store, subject: s.subject(at.Run)}
	f, err := c.find(ctx, at)
	if err != nil || f.Len() == 0 {
		return Frame{}, err
	}
	part := f.skip(at.Index).limit(maxBytes)
	if part.end < f.end {
		part.after = f.after - 1 // the rest is in the same stored frame
		return part, nil
	}
	return c.join(ctx, part, maxBytes), nil
}

// cursor reads the stored frames of one subject.
type cursor struct {
	store   *Store
	subject string
}

// frame parses a stored message. The hint of the frame is its own sequence.
func (c cursor) frame(m *Message, err error) (Frame, error) {
	if err != nil || m == nil {
		return Frame{}, err
	}
	f, err := ParseFrame(m.Header, m.Data)
	f.after = m.Sequence
	return f, err
}

// next returns the first frame after sequence.
func (c cursor) next(ctx context.Context, sequence uint64) (Frame, error) {
	return c.frame(c.store.next(ctx, c.subject, sequence+1))
}

// find returns the stored frame that holds at.Index, or the zero Frame if it is not stored yet. A hint from a stored
// frame points to the right frame, a hint from a live frame to the frame before.
func (c cursor) find(ctx context.Context, at Position) (Frame, error) {
	f := Frame{after: at.After}
	for range 2 {
		next, err := c.next(ctx, f.after)
		if err != nil || next.has(at.Index) {
			return next, err
		}
		if next.Len() == 0 || next.first > at.Index {
			break
		}
		f = next
	}
	return c.search(ctx, at.Index)
}

// search finds the frame that holds index without a hint, by bisection of the stream sequences
// between the first frame and the last.
func (c cursor) search(ctx context.Context, index int64) (Frame, error) {
	last, err := c.frame(c.store.leader(ctx, getRequest{LastFor: c.subject}))
	if err != nil || last.has(index) {
		return last, err
	}
	if last.end <= index { // not stored yet
		return Frame{}, nil
	}
	low, err := c.next(ctx, 0)
	if err != nil || low.has(index) {
		return low, err
	}
	for high := last.after; low.after+1 < high; {
		middle := low.after + (high-low.after)/2
		f, err := c.next(ctx, middle-1)
		switch {
		case err != nil || f.has(index):
			return f, err
		case f.Len() > 0 && f.end <= index:
			low = f
		default:
			high = middle
		}
	}
	return Frame{}, ErrExpired
}

// join appends the frames that follow f as long as they fit into maxBytes. It stops at the first frame that it cannot
// read.
func (c cursor) join(ctx context.Context, f Frame, maxBytes int) Frame {
	for range maxJoined {
		m, err := c.store.direct(ctx, getRequest{Sequence: f.after + 1, NextFor: c.subject})
		next, err := c.frame(m, err)
		if err != nil || next.Len() == 0 || next.first != f.end || len(f.body)+len(next.body) > maxBytes {
			return f
		}
		f.body = append(f.body, next.body...)
		f.end, f.after = next.end, next.after
	}
	return f
}
