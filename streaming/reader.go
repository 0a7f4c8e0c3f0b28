package streaming

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// ErrDigest means that the chunks read are not those whose digest the outcome names.
var ErrDigest = errors.New("streaming: chunks do not match the digest of the outcome")

// ReaderOptions tune a Reader. The zero value is the default.
type ReaderOptions struct {
	// CallID is put into each chunk.
	CallID string
	// Run and Index are where to begin, if not with whatever run is offered first. The chunks
	// from there on are fetched at once.
	Run   Run
	Index int64
	// Buffer bounds the bytes of live frames that are kept (default 1 MiB).
	Buffer int
	// FetchBytes bounds what is asked of the source at once (default 512 KiB).
	FetchBytes int
	// Patience is how long the source may lack a chunk that must be stored before it counts as
	// expired (default 2 s): a replica may lag, and so may a leader that is being replaced.
	Patience time.Duration
}

// Reader yields the chunks of one call in order. One goroutine calls Next, any may call the other
// methods, none of which block. A Reader owns no goroutine and need not be closed.
type Reader struct {
	source Source
	opts   ReaderOptions
	wake   chan struct{} // something was offered

	mu       sync.Mutex
	assembly assembly
}

// NewReader returns a Reader that fetches from source what it does not see live.
func NewReader(source Source, opts ReaderOptions) *Reader {
	opts.Buffer = cmp.Or(opts.Buffer, 1<<20)
	opts.FetchBytes = cmp.Or(opts.FetchBytes, 512<<10)
	opts.Patience = cmp.Or(opts.Patience, 2*time.Second)
	r := &Reader{source: source, opts: opts, wake: make(chan struct{}, 1)}
	r.assembly.limit = opts.Buffer
	r.assembly.start(opts.Run, opts.Index)
	if opts.Run != (Run{}) {
		r.Resync()
	}
	return r
}

// Offer hands over a live frame of a run, as its message came: in any order, more than once, or
// not at all. Malformed frames count as lost. data is kept.
func (r *Reader) Offer(run Run, header map[string][]string, data []byte) {
	f, err := ParseFrame(header, data)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.assembly.offer(run, f)
	r.mu.Unlock()
	timer.Notify(r.wake)
}

// Resync says that live frames may have been lost, as after a reconnect, so that the Reader asks
// the source rather than wait for the next frame to show the gap.
func (r *Reader) Resync() {
	r.mu.Lock()
	r.assembly.doubt()
	r.mu.Unlock()
	timer.Notify(r.wake)
}

// Finish tells the outcome: the run that it is of and the chunks that it names, nil if it names
// none. The Reader then yields the rest of that run (all of it, if it was reading another one) and
// ends. Without chunks it ends with what it holds. Only the first call counts.
func (r *Reader) Finish(run Run, chunks *envelope.Chunks) {
	want := envelope.Chunks{Count: noCount}
	if chunks != nil {
		want = *chunks
	}
	r.mu.Lock()
	r.assembly.finish(run, want)
	r.mu.Unlock()
	timer.Notify(r.wake)
}

// Next returns the next chunk and waits for it if need be. It returns io.EOF after the last one,
// ErrExpired if the store no longer has what is missing, ErrDigest or ErrCorrupt if the chunks
// are not what was written, and the source's own errors. After an error of the source, or because
// ctx ended, Next may be called again and goes on where it was. Chunks never have Final set: whether
// one was the last is known only by the outcome. The Data of chunks that were written together
// share memory: clone what is kept for long.
func (r *Reader) Next(ctx context.Context) (envelope.Chunk, error) {
	lack := lack{tries: rhythm()}
	for {
		chunk, todo, err := r.step()
		switch todo {
		case actYield, actEnd:
			return chunk, err
		case actWait:
			err = r.wait(ctx)
		case actFetch, actProbe:
			err = r.fetch(ctx, todo, &lack)
		}
		if err != nil {
			return envelope.Chunk{}, err
		}
	}
}

// step yields a chunk or the end if it can, and otherwise says what to do.
func (r *Reader) step() (envelope.Chunk, action, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &r.assembly
	todo := a.advance()
	if todo == actEnd {
		if !a.intact() {
			return envelope.Chunk{}, todo, ErrDigest
		}
		return envelope.Chunk{}, todo, io.EOF
	}
	if todo != actYield {
		return envelope.Chunk{}, todo, nil
	}
	chunk := envelope.Chunk{CallID: r.opts.CallID, Index: a.next, Fence: a.run.Fence}
	var err error
	chunk.Kind, chunk.Data, err = a.yield()
	return chunk, todo, err
}

// lack tells how long the source has been lacking a chunk.
type lack struct {
	tries timer.Backoff
	since time.Time
}

// fetch asks the source once, in bounded time, and pauses if it could not help.
func (r *Reader) fetch(ctx context.Context, todo action, lack *lack) error {
	r.mu.Lock()
	q := r.assembly.query()
	r.mu.Unlock()
	var f Frame
	err := lack.tries.Once(ctx, func(ctx context.Context) (err error) {
		f, err = r.source.Fetch(ctx, q.at, r.opts.FetchBytes)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		lack.since = time.Time{}
	case err != nil:
		return err
	default:
		r.mu.Lock()
		err = r.assembly.supply(q, f)
		r.mu.Unlock()
		if f.Len() > 0 || err != nil {
			return err
		}
		if todo == actFetch && lack.exceeds(r.opts.Patience) {
			return ErrExpired
		}
	}
	return r.pause(ctx, q.at.Run, lack.tries.Next())
}

// exceeds tells whether the source has been asked in vain for that long.
func (l *lack) exceeds(patience time.Duration) bool {
	if l.since.IsZero() {
		l.since = time.Now()
	}
	return time.Since(l.since) >= patience
}

// wait returns when something was offered or ctx ends.
func (r *Reader) wait(ctx context.Context) error {
	select {
	case <-r.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause returns after d, when ctx ends, or when asking the source about run is no longer needed.
func (r *Reader) pause(ctx context.Context, run Run, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-r.wake:
			if r.settled(run) {
				return nil
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settled tells whether Next can go on without what it asked the source for.
func (r *Reader) settled(run Run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	todo := r.assembly.advance()
	return run != r.assembly.run || todo == actYield || todo == actEnd
}
