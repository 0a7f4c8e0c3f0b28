package chunk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// remote is the [streaming.Source] of a client. It asks dispatchers, which check whether the client may read.
type remote struct {
	inbox  *rpc.Inbox
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
	refusal, err := r.inbox.Ask(ctx, subjects.OpChunks, envelope.ChunksRequest{
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

// Stream hands the chunks of one call to its caller while the call runs. One goroutine calls its methods. It believes a
// frame that carries the proof of the call. Any other frame says that there may be something to read, and no more:
// another client may have had the server send it.
type Stream struct {
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

// Options are those of [Follow].
type Options struct {
	Inbox   *rpc.Inbox
	Key     subjects.Key // of the log of the call
	CallID  string
	Timeout time.Duration // of the request
	Reply   string        // subject on which the answers of the call come
	Bound   bool          // the token is bound: the server lets it hear no live chunks
	OnChunk func(envelope.Chunk) error
}

// Follow subscribes to the chunks of a call, before the call is sent, so that none is missed live. Stop the stream when
// done.
func Follow(ctx context.Context, o Options) (*Stream, error) {
	s := &Stream{
		source: remote{inbox: o.Inbox, ref: o.Key.Ref(), callID: o.CallID},
		done:   make(chan error, 1), hint: make(chan struct{}, 1),
	}
	s.proof.Store(new(subjects.ChunkProof(o.Reply, o.Key.ID)))
	s.reader = streaming.NewReader(s.source, streaming.ReaderOptions{CallID: o.CallID, Patience: patience(o.Timeout)})
	if !o.Bound {
		live := subjects.ChunkLive(o.Inbox.Tenant, o.Inbox.Actor, o.Key.ID)
		sub, err := o.Inbox.NC.Subscribe(live, s.receive)
		if err != nil {
			return nil, fmt.Errorf("follow chunks: %w", err)
		}
		s.sub = sub
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.join = func(attempt int) { s.asking.Go(func() { s.ask(ctx, attempt) }) }
	go func() { // Finish or Stop waits for it
		err := errExited // unless the caller's function ends this goroutine
		defer func() { s.done <- err }()
		err = deliver(ctx, s.reader, o.OnChunk)
	}()
	return s, nil
}

// errExited means that the function of the caller has ended the goroutine in which it was called.
var errExited = errors.New("the function of the call has ended its goroutine")

// receive handles a message on a subject of the call's chunks.
func (s *Stream) receive(msg *nats.Msg) {
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
func patience(timeout time.Duration) time.Duration { return min(maxPatience, timeout/2) }

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

// Accepted takes the proof of an attempt that somebody else opened, and asks for its chunks: those that were sent
// before were not believed, or did not come here.
func (s *Stream) Accepted(a *envelope.Accepted) {
	if a.ChunkProof != "" {
		s.proof.Store(&a.ChunkProof)
	}
	if s.attempt = a.Attempt; a.Joined || s.missed || s.sub == nil {
		s.catchUp()
	}
}

// Hinted asks for stored chunks after a message without the proof of the call.
func (s *Stream) Hinted() {
	s.missed = true
	s.catchUp()
}

// Hints is ready when something hints at chunks that nobody asks for yet. s may be nil.
func (s *Stream) Hints() <-chan struct{} {
	if s == nil || s.join == nil {
		return nil
	}
	return s.hint
}

// Reconnected asks for the chunks that may have been sent while there was no connection. The next live chunk would show
// that some are missing, but it may come late.
func (s *Stream) Reconnected() {
	if s.missed = true; s.live.Load() {
		s.reader.Resync()
		return
	}
	s.catchUp()
}

// catchUp asks for chunks until they come by themselves.
func (s *Stream) catchUp() {
	if s.join != nil && s.attempt > 0 {
		s.join(s.attempt)
		s.join = nil
	}
}

func (s *Stream) ask(ctx context.Context, attempt int) {
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
func (s *Stream) pause(ctx context.Context, least, d time.Duration) bool {
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

// Finish waits until all chunks that the outcome names have been delivered.
func (s *Stream) Finish(ctx context.Context, r *envelope.Response) error {
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

// Stop ends the stream, and waits for it.
func (s *Stream) Stop() {
	if s.sub != nil {
		_ = s.sub.Unsubscribe() // gone with the connection otherwise
	}
	s.cancel()
	<-s.done
	s.asking.Wait()
}
