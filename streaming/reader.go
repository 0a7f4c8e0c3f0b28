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

// ErrDigest means that the chunks do not have the count or digest that the outcome names.
var ErrDigest = errors.New("streaming: chunks do not match the digest of the outcome")

// ReaderOptions configures a [Reader]. The zero value uses all defaults.
type ReaderOptions struct {
	// CallID is the CallID of each chunk that the Reader yields.
	CallID string
	// Run and Index are the run and the index to begin with. The Reader fetches the chunks from there on at once. Default:
	// index 0 of the first run that is offered.
	Run   Run
	Index int64
	// Buffer is the largest number of bytes of live frames that the Reader keeps; default 1 MiB.
	Buffer int
	// FetchBytes is the largest number of bytes of one Fetch; default 512 KiB.
	FetchBytes int
	// Patience is the time for which the source may lack a chunk that must be stored, before Next returns ErrExpired;
	// default 2 s. A replica may lag, and a new leader may need time.
	Patience time.Duration
}

// Reader yields the chunks of one call in order. Make one with [NewReader]. Only one goroutine may call Next. Any
// goroutine may call the other methods, which do not block. A Reader has no goroutine and needs no Close.
type Reader struct {
	source Source
	opts   ReaderOptions
	wake   chan struct{} // signals a call of Offer, Resync or Finish

	mu       sync.Mutex
	assembly assembly
}

// NewReader returns a Reader that fetches the chunks from source that it does not receive live.
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

// Offer passes a live frame of a run to the Reader: the headers and data of its message. Frames may be offered in any
// order, more than once, or not at all. A malformed frame counts as lost. The Reader keeps data.
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

// Resync makes the Reader ask the source for missed chunks now, instead of after the next live frame. Call it when live
// frames may have been lost, as after a reconnect.
func (r *Reader) Resync() {
	r.mu.Lock()
	r.assembly.doubt()
	r.mu.Unlock()
	timer.Notify(r.wake)
}

// Finish passes the outcome of the call to the Reader: the run that it names, and the count and digest of its chunks,
// nil if it has none. The Reader then yields the rest of that run, or all of it if it was reading another run, and
// ends. If chunks is nil, it ends after the chunks that it has. Further calls have no effect.
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

// Next returns the next chunk, and waits for it if necessary. The error is [io.EOF] after the last chunk, [ErrExpired]
// if a missing chunk is no longer stored, [ErrDigest] or [ErrCorrupt] if the chunks differ from those written, the
// error of ctx, or an error of the source. After an error of ctx or of the source, Next can be called again and goes on
// where it was. Final of a chunk is never set, because only the outcome shows which chunk is the last. The Data of
// several chunks may share memory: clone Data that you keep.
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

// step returns the next chunk, or the end, if it is known. Otherwise it returns the action that Next must take.
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

// lack tracks since when the source has lacked a chunk.
type lack struct {
	tries timer.Backoff
	since time.Time
}

// fetch asks the source once, in bounded time, and pauses if it gets no chunk.
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

// exceeds reports whether the source has lacked the chunk for at least patience.
func (l *lack) exceeds(patience time.Duration) bool {
	if l.since.IsZero() {
		l.since = time.Now()
	}
	return time.Since(l.since) >= patience
}

// wait returns when a method has woken the Reader, or ctx ends.
func (r *Reader) wait(ctx context.Context) error {
	select {
	case <-r.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause returns after d, when ctx ends, or when Next no longer needs the chunk of run from the source.
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

// settled reports whether Next can go on without the chunk that it asked the source for.
func (r *Reader) settled(run Run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	todo := r.assembly.advance()
	return run != r.assembly.run || todo == actYield || todo == actEnd
}
