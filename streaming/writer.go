package streaming

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// What a Writer refuses. After any of them but ErrInvalid it takes no more chunks.
var (
	// ErrInvalid means that a chunk is not I-JSON or has no known kind.
	ErrInvalid = errors.New("streaming: invalid chunk")
	// ErrChunkSize means that one chunk is larger than envelope.MaxChunk or than a message may be.
	ErrChunkSize = errors.New("streaming: chunk too large")
	// ErrOutputLimit means that all chunks together exceed WriterOptions.MaxBytes.
	ErrOutputLimit = errors.New("streaming: output limit reached")
	// ErrConflict means that somebody else wrote to the subject of this run. Fencing makes it
	// impossible, so it is a defect or an intruder.
	ErrConflict = errors.New("streaming: another writer on this subject")
	// ErrClosed means that the Writer has been closed.
	ErrClosed = errors.New("streaming: writer is closed")
)

// errRefused marks a definite answer: the frame is not stored and never will be.
var errRefused = errors.New("streaming: frame refused")

const (
	defaultWindow   = 256 << 10
	defaultMaxBytes = 8 << 20
)

// WriterOptions tune a Writer. The zero value is the default.
type WriterOptions struct {
	// Window is how many encoded bytes may wait while a frame is on its way (default 256 KiB).
	// A Writer holds at most twice that, or two chunks if these are larger.
	Window int
	// MaxBytes bounds the data of all chunks together (default 8 MiB).
	MaxBytes int64
	// Proof goes into each frame, so that callers believe it (default: none, and they read what is stored).
	Proof string
}

// author is the Writer, as its frames name it.
type author struct{ nonce, proof string }

// frameLog is what a Writer needs of a Store.
type frameLog interface {
	// maxFrame is the size of the largest body that can be appended.
	maxFrame() int
	// append stores f if the last frame on subject has sequence prev. Unless the error is
	// errRefused, it leaves open whether the frame was stored or still will be.
	append(ctx context.Context, subject string, f Frame, by author, prev uint64) (uint64, error)
	// last tells what the last frame on subject is; the zero mark if there is none.
	last(ctx context.Context, subject string) (mark, error)
}

// mark identifies a stored frame.
type mark struct {
	sequence uint64
	nonce    string
	frame    Frame
}

// Writer appends the chunks of one run to its subject. Emit and Close must not be called at the
// same time, and Emit not by two goroutines.
type Writer struct {
	log     frameLog
	subject string
	opts    WriterOptions
	by      author
	cancel  context.CancelCauseFunc

	wake chan struct{} // something to send, or closing
	room chan struct{} // the window has been emptied
	done chan struct{} // the goroutine has ended

	mu      sync.Mutex
	pending []byte
	next    int64 // index of the next chunk
	size    int64
	closing bool
	refused error // why Emit takes no more

	// Owned by the goroutine until done is closed.
	stored *digest
	prev   uint64
	failed error
}

// NewWriter returns a Writer for the run whose subject is given. It lives until Close or until
// ctx ends: a Writer whose ctx has ended may be dropped without Close.
func NewWriter(ctx context.Context, store *Store, subject string, opts WriterOptions) *Writer {
	return newWriter(ctx, store, subject, opts)
}

func newWriter(ctx context.Context, log frameLog, subject string, opts WriterOptions) *Writer {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Writer{
		log:     log,
		subject: subject,
		by:      author{rand.Text(), opts.Proof},
		cancel:  cancel,
		opts: WriterOptions{
			Window:   min(cmp.Or(opts.Window, defaultWindow), log.maxFrame()),
			MaxBytes: cmp.Or(opts.MaxBytes, defaultMaxBytes),
		},
		wake:   make(chan struct{}, 1),
		room:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		stored: newDigest(),
	}
	go w.run(ctx)
	return w
}

// Emit appends one chunk. It returns as soon as the chunk is in the window, and waits while there
// is no room in it. data is not kept.
func (w *Writer) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	need := len(data) + overhead // at most: encoding only drops white space
	for {
		fits, err := w.tryEmit(kind, data, need)
		if fits || err != nil {
			return err
		}
		select {
		case <-w.room:
		case <-w.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryEmit adds the chunk to the window unless it has no room for need bytes.
func (w *Writer) tryEmit(kind envelope.ChunkKind, data jsontext.Value, need int) (fits bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused != nil {
		return false, w.refused
	}
	if limit := min(w.log.maxFrame(), envelope.MaxChunk+overhead); need > limit {
		w.refused = fmt.Errorf("%w: %d bytes, at most %d fit", ErrChunkSize, need, limit)
		return false, w.refused
	}
	before := len(w.pending)
	if before > 0 && before+need > w.opts.Window {
		return false, nil
	}
	pending, err := appendChunk(w.pending, kind, data)
	if err != nil {
		return false, err
	}
	size := w.size + int64(len(pending)-before-overhead)
	if size > w.opts.MaxBytes {
		w.refused = fmt.Errorf("%w: %d bytes", ErrOutputLimit, w.opts.MaxBytes)
		return false, w.refused
	}
	w.pending, w.size = pending, size
	w.next++
	timer.Notify(w.wake)
	return true, nil
}

// Close sends the chunks that wait, waits until all are stored, and returns count and digest of the stored chunks.
// The error says why some chunks that Emit took are not stored. When ctx ends first, sending is given up. A frame that
// is then on its way may be stored or not, so the count is not known: Close returns the zero Chunks with the error.
// In any case nothing of the Writer is left running.
func (w *Writer) Close(ctx context.Context) (envelope.Chunks, error) {
	w.mu.Lock()
	w.closing = true
	w.refused = cmp.Or[error](w.refused, ErrClosed)
	w.mu.Unlock()
	timer.Notify(w.wake)
	select {
	case <-w.done:
	case <-ctx.Done():
		w.cancel(context.Cause(ctx))
		<-w.done
	}
	w.cancel(nil)
	if w.failed != nil && !errors.Is(w.failed, errRefused) && !errors.Is(w.failed, ErrConflict) {
		return envelope.Chunks{}, w.failed
	}
	return w.stored.chunks(), w.failed
}

// run sends frame after frame until the Writer is closed, fails, or ctx ends.
func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	var body []byte
	for {
		f, err := w.take(ctx, body)
		if err == nil && f.Len() == 0 {
			return
		}
		if err == nil {
			err = w.store(ctx, f)
		}
		if err != nil {
			w.fail(err)
			return
		}
		w.stored.addBody(f.body)
		body = f.body
	}
}

// take waits for chunks and returns them all as one frame, leaving empty as the next window. The
// zero Frame means that the Writer is closed.
func (w *Writer) take(ctx context.Context, empty []byte) (Frame, error) {
	for {
		w.mu.Lock()
		f := Frame{first: w.stored.count, end: w.next, body: w.pending}
		closing := w.closing
		if f.Len() > 0 {
			w.pending = empty[:0]
		}
		w.mu.Unlock()
		if f.Len() > 0 {
			timer.Notify(w.room)
			return f, nil
		}
		if closing {
			return Frame{}, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return Frame{}, context.Cause(ctx)
		}
	}
}

// store appends f exactly once. An answer that leaves open whether f is stored is resolved by
// looking at the last frame: either it is f, or f is sent again after it. A copy of f that is
// still on its way then loses the compare-and-set, or wins it and is found by the next look.
func (w *Writer) store(ctx context.Context, f Frame) error {
	tries := rhythm()
	var sequence uint64
	for {
		err := tries.Once(ctx, func(ctx context.Context) (err error) {
			sequence, err = w.log.append(ctx, w.subject, f, w.by, w.prev)
			return err
		})
		if err == nil {
			w.prev = sequence
		}
		if err == nil || errors.Is(err, errRefused) {
			return err
		}
		last, err := w.look(ctx, &tries, err)
		if err != nil {
			return err
		}
		if last.sequence != 0 && last.nonce != w.by.nonce {
			return fmt.Errorf("%w: %s", ErrConflict, w.subject)
		}
		// No frame at all after some were stored means that these have expired.
		w.prev = last.sequence
		if last.frame.Len() > 0 && last.frame.first == f.first {
			return nil
		}
	}
}

// look reads the last frame of the subject, again and again until it gets an answer or ctx ends.
func (w *Writer) look(ctx context.Context, tries *timer.Backoff, cause error) (last mark, err error) {
	for cause != nil {
		if !timer.Sleep(ctx, tries.Next()) {
			return mark{}, fmt.Errorf("streaming: append %s: %w; the last try said: %w", w.subject, context.Cause(ctx), cause)
		}
		cause = tries.Once(ctx, func(ctx context.Context) (err error) {
			last, err = w.log.last(ctx, w.subject)
			return err
		})
	}
	return last, nil
}

// fail ends the Writer. Chunks that are lost by it make it an error of Close too.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stored.count < w.next {
		w.failed = err
	}
	w.refused = cmp.Or(w.refused, err)
}
