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

// Errors of [Writer]. After any of them except ErrInvalid, the Writer takes no more chunks.
var (
	// ErrInvalid means that a chunk is not I-JSON or has an unknown kind.
	ErrInvalid = errors.New("streaming: invalid chunk")
	// ErrChunkSize means that one chunk exceeds envelope.MaxChunk, or the largest message of the server.
	ErrChunkSize = errors.New("streaming: chunk too large")
	// ErrOutputLimit means that all chunks together exceed WriterOptions.MaxBytes.
	ErrOutputLimit = errors.New("streaming: output limit reached")
	// ErrConflict means that another process wrote to the subject of this run. Fences prevent that, so the reason is a
	// defect or an attack.
	ErrConflict = errors.New("streaming: another writer on this subject")
	// ErrClosed means that the Writer has been closed.
	ErrClosed = errors.New("streaming: writer is closed")
)

// errRefused means that the frame is not stored and never will be.
var errRefused = errors.New("streaming: frame refused")

const (
	defaultWindow   = 256 << 10
	defaultMaxBytes = 8 << 20
)

// WriterOptions configures a [Writer]. The zero value uses all defaults.
type WriterOptions struct {
	// Window is the largest number of encoded bytes that wait while a frame is being stored; default 256 KiB. A Writer
	// holds at most twice that in memory, or two chunks if these are larger.
	Window int
	// MaxBytes is the largest size of the data of all chunks together, in bytes; default 8 MiB.
	MaxBytes int64
	// Proof is put into each frame; see [subjects.ChunkProof]. Callers accept live frames only with a proof. With "" they
	// read the stored frames.
	Proof string
}

// author holds the headers that identify the Writer of a frame.
type author struct{ nonce, proof string }

// frameLog is the part of a Store that a Writer uses.
type frameLog interface {
	// maxFrame returns the size of the largest body that can be appended.
	maxFrame() int
	// append stores f if the last frame on subject has the sequence prev. After an error other than errRefused, the frame
	// may be stored, or may be stored later.
	append(ctx context.Context, subject string, f Frame, by author, prev uint64) (uint64, error)
	// last returns the mark of the last frame on subject, or the zero mark if there is none.
	last(ctx context.Context, subject string) (mark, error)
}

// mark identifies a stored frame.
type mark struct {
	sequence uint64
	nonce    string
	frame    Frame
}

// Writer appends the chunks of one run to its subject. Make one with [NewWriter]. It is not safe for concurrent use: no
// two calls of Emit or Close may run at the same time.
type Writer struct {
	log     frameLog
	subject string
	opts    WriterOptions
	by      author
	cancel  context.CancelCauseFunc

	wake chan struct{} // signals chunks to send, or closing
	room chan struct{} // signals an empty window
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	pending []byte
	next    int64 // index of the next chunk
	size    int64
	closing bool
	refused error // if not nil, Emit returns it

	// Owned by the goroutine until done is closed.
	stored *digest
	prev   uint64
	failed error
}

// NewWriter returns a Writer for the run with that subject. Its goroutine ends with Close, or when ctx ends. After ctx
// has ended, Close is not needed.
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

// Emit appends one chunk. It returns when the chunk is in the window, not when it is stored, and blocks while the
// window is full. It does not keep data. The error is one of the errors of Writer, the error of ctx, or the error
// because of which an earlier chunk could not be stored.
func (w *Writer) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	need := len(data) + overhead // an upper bound: encoding removes white space
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

// tryEmit adds the chunk to the window. fits is false if the window has no room for need bytes.
func (w *Writer) tryEmit(kind envelope.ChunkKind, data jsontext.Value, need int) (fits bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused != nil {
		return false, w.refused
	}
	if limit := min(w.log.maxFrame(), envelope.MaxChunk+overhead); need > limit {
		w.refused = fmt.Errorf("%w: %d bytes of data, at most %d fit", ErrChunkSize, need-overhead, limit-overhead)
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

// Close sends the waiting chunks, waits until all are stored, and returns the count and digest of the stored chunks.
// The error is not nil if some chunks that Emit took are not stored. If ctx ends first, Close gives up. Then the last
// frame may or may not be stored, so Close returns the zero Chunks with the error. In any case the goroutine of the
// Writer has ended when Close returns.
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

// take waits for chunks and returns all that wait as one frame. The memory of empty becomes the next window. The zero
// Frame means that the Writer is closed and no chunks are left.
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

// store appends f exactly once. If it is not known whether f is stored, store reads the last frame of the subject:
// either that is f, or store sends f again after it. If a delayed copy of f arrives then, one of the two copies loses
// the compare-and-set, and the next read finds the other.
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
		// If the subject has no frame although some were stored, these have expired.
		w.prev = last.sequence
		if last.frame.Len() > 0 && last.frame.first == f.first {
			return nil
		}
	}
}

// look reads the last frame of the subject. It tries until it gets an answer or ctx ends.
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

// fail makes Emit return err from now on. If chunks are lost, Close returns err, too.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stored.count < w.next {
		w.failed = err
	}
	w.refused = cmp.Or(w.refused, err)
}
