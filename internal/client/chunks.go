package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// remote is the [streaming.Source] of a client. It asks dispatchers, which check whether the client may read.
type remote struct {
	client *Client
	ref    string
	callID string
}

// Fetch implements streaming.Source.
func (r remote) Fetch(ctx context.Context, at streaming.Position, maxBytes int) (streaming.Frame, error) {
	f, _, err := r.fetch(ctx, at, maxBytes)
	return f, err
}

// fetch returns stored chunks and the run that they are of: the newest one, if at names none.
func (r remote) fetch(ctx context.Context, at streaming.Position,
	maxBytes int) (f streaming.Frame, run streaming.Run, err error) {
	var a envelope.ChunksResponse
	refusal, err := r.client.inbox.Ask(ctx, subjects.OpChunks, envelope.ChunksRequest{
		Ref: r.ref, CallID: r.callID, Attempt: at.Run.Attempt, Fence: at.Run.Fence,
		Index: at.Index, After: at.After, MaxBytes: maxBytes,
	}, &a)
	switch {
	case err != nil:
		return f, run, fmt.Errorf("%w: %w", streaming.ErrUnavailable, err)
	case refusal != nil && refusal.Code.Retryable():
		return f, run, fmt.Errorf("%w: %s", streaming.ErrUnavailable, refusal.String())
	case refusal != nil: // what may not be read is as good as gone
		return f, run, fmt.Errorf("%w: %s", streaming.ErrExpired, refusal.String())
	case a.Expired:
		return f, run, streaming.ErrExpired
	}
	f, err = streaming.ParseFrame(a.Header, a.Body)
	return f, streaming.Run{Attempt: at.Run.Attempt, Fence: a.Fence}, err
}

// chunkStream hands the chunks of one call to its caller while the call runs. It believes a frame that carries the
// proof of the call. Any other frame says that there may be something to read, and no more: another client may have had
// the server send it.
type chunkStream struct {
	source remote
	reader *streaming.Reader
	sub    *nats.Subscription // nil if the token is bound, which hears no live chunks: s asks for all
	cancel context.CancelFunc
	done   chan error             // the result of delivering all chunks
	proof  atomic.Pointer[string] // of the call as it is known so far
	live   atomic.Bool            // chunks come by themselves
	hint   chan struct{}          // there may be chunks that do not
	join   func(attempt int)      // asks for chunks; nil when somebody does
	asking sync.WaitGroup

	attempt int  // that was accepted; 0 before
	missed  bool // chunks may have been sent that did not come
}

// follow subscribes to the chunks of the call before it is sent, so that none is missed live. Its answers come to
// reply.
func (c *Client) follow(ctx context.Context, e *pendingCall, req *envelope.Request, reply string) (*chunkStream,
	error) {
	key := c.key(req)
	s := &chunkStream{
		source: remote{client: c, ref: key.Ref(), callID: req.CallID},
		done:   make(chan error, 1), hint: make(chan struct{}, 1),
	}
	s.proof.Store(new(subjects.ChunkProof(reply, key.ID)))
	s.reader = streaming.NewReader(s.source, streaming.ReaderOptions{CallID: req.CallID, Patience: patience(req)})
	if !c.bound {
		sub, err := c.inbox.NC.Subscribe(subjects.ChunkLive(c.Tenant, c.Actor, key.ID), s.hear)
		if err != nil {
			return nil, fmt.Errorf("follow chunks: %w", err)
		}
		s.sub = sub
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.join = func(attempt int) { s.asking.Go(func() { s.ask(ctx, attempt) }) }
	go func() { // finish or stop waits for it
		err := errStopped // unless the caller's function ends this goroutine
		defer func() { s.done <- err }()
		err = deliver(ctx, s.reader, e.call.OnChunk)
	}()
	return s, nil
}

// hear handles a message on a subject of the call's chunks.
func (s *chunkStream) hear(msg *nats.Msg) {
	src, err := subjects.ParseChunk(msg.Subject)
	if err != nil || msg.Header.Get(streaming.HeaderProof) != *s.proof.Load() {
		timer.Notify(s.hint)
		return
	}
	s.live.Store(true)
	s.reader.Offer(streaming.Run{Attempt: src.Attempt, Fence: src.Fence}, msg.Header, msg.Data)
}

// patience returns how long the reader waits for chunks that must be stored. It is short enough that the call ends with
// an error about the chunks before its deadline.
func patience(req *envelope.Request) time.Duration {
	return min(maxPatience, time.Duration(req.Constraints.TimeoutMS)*time.Millisecond/2)
}

const maxPatience = 2 * time.Second

// How long the client waits before it asks again for chunks that do not come by themselves. It waits firstAsk after new
// chunks, and up to lastAsk after empty answers. A hint, which may be forged, shortens the wait to leastAsk after new
// chunks, and to up to mostAsk after empty answers.
const (
	leastAsk = 50 * time.Millisecond
	mostAsk  = 500 * time.Millisecond
	firstAsk = 200 * time.Millisecond
	lastAsk  = 2 * time.Second
)

// accepted takes the proof of an attempt that somebody else opened, and asks for its chunks: those that were sent
// before were not believed, or did not come here.
func (s *chunkStream) accepted(a *envelope.Accepted) {
	if a.ChunkProof != "" {
		s.proof.Store(&a.ChunkProof)
	}
	if s.attempt = a.Attempt; a.Joined || s.missed || s.sub == nil {
		s.catchUp()
	}
}

// hinted asks for stored chunks after a message without the proof of the call.
func (s *chunkStream) hinted() {
	s.missed = true
	s.catchUp()
}

// hints is ready when something hints at chunks that nobody asks for yet. s may be nil.
func (s *chunkStream) hints() <-chan struct{} {
	if s == nil || s.join == nil {
		return nil
	}
	return s.hint
}

// reconnected asks for the chunks that may have been sent while there was no connection. The next live chunk would show
// that some are missing, but it may come late.
func (s *chunkStream) reconnected() {
	if s.missed = true; s.live.Load() {
		s.reader.Resync()
		return
	}
	s.catchUp()
}

// catchUp asks for chunks until they come by themselves.
func (s *chunkStream) catchUp() {
	if s.join != nil && s.attempt > 0 {
		s.join(s.attempt)
		s.join = nil
	}
}

func (s *chunkStream) ask(ctx context.Context, attempt int) {
	at := streaming.Position{Run: streaming.Run{Attempt: attempt}}
	known := at.Run
	for least, pause := leastAsk, firstAsk; s.pause(ctx, least, pause) && !s.live.Load(); {
		f, run, err := s.source.fetch(ctx, at, bus.MaxChunkBytes)
		least, pause = min(2*least, mostAsk), min(max(2*pause, firstAsk), lastAsk)
		if err != nil {
			continue // what is wrong with the chunks, the reader finds
		}
		if run != known {
			known, at.Index = run, 0
		}
		if f.Len() == 0 {
			continue
		}
		s.reader.Offer(run, f.Header(), f.Body())
		at.Index, least, pause = f.First()+f.Len(), leastAsk, firstAsk
		if len(f.Body()) >= bus.MaxChunkBytes/2 { // there is more
			pause = 0
		}
	}
}

// pause waits for d, or only for least where something hints at chunks, and reports whether ctx has not ended.
func (s *chunkStream) pause(ctx context.Context, least, d time.Duration) bool {
	if !timer.Sleep(ctx, min(d, least)) {
		return false
	}
	rest := time.NewTimer(d - min(d, least))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-s.hint:
	case <-ctx.Done():
		return false
	}
	return true
}

func deliver(ctx context.Context, reader *streaming.Reader, chunk func(envelope.Chunk) error) error {
	for {
		next, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := chunk(next); err != nil {
			return err
		}
	}
}

// finish waits until all chunks that the outcome names have been delivered.
func (s *chunkStream) finish(ctx context.Context, r *envelope.Response) error {
	s.reader.Finish(streaming.Run{Attempt: r.Provenance.Attempt, Fence: r.Provenance.Fence}, r.Provenance.Chunks)
	select {
	case err := <-s.done:
		s.done <- nil
		if err != nil {
			return fmt.Errorf("chunks of call %s: %w", r.CallID, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *chunkStream) stop() {
	if s.sub != nil {
		_ = s.sub.Unsubscribe() // gone with the connection otherwise
	}
	s.cancel()
	<-s.done
	s.asking.Wait()
}

// streamed returns the answer to a call with the outcome r, whose chunks were delivered except for err. A success whose
// chunks are not complete becomes a statement of the library. A stored success outlives its chunks and stays a success.
// Other outcomes do not depend on chunks. An error of OnChunk is returned as it is.
func (c *Client) streamed(e *pendingCall, r *envelope.Response, err error) (*envelope.Response, error) {
	expired := errors.Is(err, streaming.ErrExpired)
	late := errors.Is(err, context.DeadlineExceeded) && e.cancelled() == nil
	switch {
	case expired && r.Status == envelope.Success && r.Provenance.Replayed:
		return warned(r, "the chunks of this stored outcome have expired or may not be read: "+err.Error()), nil
	case late || expired || errors.Is(err, streaming.ErrDigest) || errors.Is(err, streaming.ErrCorrupt):
		if r.Status == envelope.Success {
			r = c.spoiled(r, envelope.NewError(payloadCode(err), "").WithCause(err.Error()))
		}
		return r, nil
	}
	return r, err
}

// errStopped means that the call has ended for its caller: no function of the call is called any more, and nothing is
// sent for it. No caller gets this error.
var errStopped = errors.New("the caller does not wait any more")

// StreamItem is an element of a streamed call: a chunk, or at the end the outcome.
type StreamItem struct {
	Chunk    *envelope.Chunk
	Response *envelope.Response
}

// Stream makes a call and yields its chunks as they come, then its outcome. Ending the loop
// early leaves the call running; cancel it if it is not wanted any more.
func (c *Client) Stream(ctx context.Context, call Call) iter.Seq2[StreamItem, error] {
	return func(yield func(StreamItem, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		parts := make(chan StreamItem)
		call.OnChunk = func(chunk envelope.Chunk) error {
			select {
			case parts <- StreamItem{Chunk: &chunk}:
				return nil
			case <-ctx.Done():
				return errStopped
			}
		}
		type end struct {
			resp *envelope.Response
			err  error
			is   any // what the call panicked with
		}
		done := make(chan end, 1)
		go func() { // waited for below
			var e end
			defer func() { e.is = recover(); done <- e }()
			e.resp, e.err = c.Call(ctx, call)
		}()
		for {
			select {
			case p := <-parts:
				if !yield(p, nil) {
					cancel()
					<-done
					return
				}
			case e := <-done:
				if e.is != nil {
					panic(e.is)
				}
				yield(StreamItem{Response: e.resp}, e.err)
				return
			}
		}
	}
}
