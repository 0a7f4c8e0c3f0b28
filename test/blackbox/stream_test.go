package blackbox

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// counter emits n chunks, 0 to n-1, and pauses once at the given chunk until resumed.
func counter(n, pauseAt int, paused chan<- struct{},
	resume <-chan struct{}) func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
	return func(ctx context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
		for i := range n {
			if i == pauseAt {
				close(paused)
				select {
				case <-resume:
				case <-ctx.Done():
					return tool.Result{}, ctx.Err()
				}
			}
			if err := sink.Emit(ctx, envelope.ChunkData, jsontext.Value(fmt.Sprint(i))); err != nil {
				return tool.Result{}, err
			}
		}
		return tool.Result{Output: []byte(`{}`)}, nil
	}
}

// A hundred thousand chunks arrive in order with no gap through a restart of the server and a
// reader that stalls.
func TestHundredThousandChunks(t *testing.T) {
	const n = 100_000
	paused, resume := make(chan struct{}), make(chan struct{})
	d := deploy(t, map[string]spec{"count": {class: call.Idempotent, streaming: true,
		run: counter(n, n/2, paused, resume)}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	stalled := false
	next, fence := int64(0), uint64(0)
	r := mustCall(t, c, clientlib.Call{Tool: "count", Timeout: 100 * time.Second,
		Retry: &envelope.RetryPolicy{MaxAttempts: 1}, OnChunk: func(chunk envelope.Chunk) error {
			if chunk.Fence != fence {
				if chunk.Fence < fence {
					return fmt.Errorf("fence %d after %d", chunk.Fence, fence)
				}
				next, fence = 0, chunk.Fence
			}
			if chunk.Index != next || string(chunk.Data) != fmt.Sprint(next) {
				return fmt.Errorf("chunk %d (%s) where %d was due", chunk.Index, chunk.Data, next)
			}
			next++
			if next == n/4 && !stalled {
				stalled = true
				<-paused // the reader stalls until the tool has written far ahead
				d.srv.Restart()
				close(resume)
			}
			return nil
		}})
	wantStatus(t, r, envelope.Success, "")
	if next != n || r.Provenance.Chunks == nil || r.Provenance.Chunks.Count != n {
		t.Errorf("%d chunks, %+v", next, r.Provenance.Chunks)
	}
}

// The chunks of a call are yielded as they come, the outcome last.
func TestStreamIterator(t *testing.T) {
	paused, resume := make(chan struct{}), make(chan struct{})
	d := deploy(t, map[string]spec{"count": {class: call.Pure, streaming: true, run: counter(10, 5, paused, resume)}})
	d.dispatcher()
	d.executor(6)
	seen := 0
	for part, err := range d.client().Stream(t.Context(),
		clientlib.Call{Tool: "count", Retry: &envelope.RetryPolicy{MaxAttempts: 1}}) {
		if err != nil {
			t.Fatal(err)
		}
		if part.Response != nil {
			wantStatus(t, part.Response, envelope.Success, "")
			break
		}
		if seen++; seen == 5 {
			close(resume) // five chunks came while the tool was still running
		}
	}
	if seen != 10 {
		t.Errorf("%d chunks", seen)
	}
}

// gate lets connections be made while it is open.
type gate struct{ open atomic.Pointer[chan struct{}] }

func (g *gate) close() (open func()) {
	closed := make(chan struct{})
	g.open.Store(&closed)
	return func() { close(closed) }
}

func (g *gate) Dial(network, address string) (net.Conn, error) {
	if closed := g.open.Load(); closed != nil {
		<-*closed
	}
	return net.Dial(network, address)
}

// Chunks that come while the caller has no connection reach it once it has one again, also when no
// further ones follow that would show the gap.
func TestChunksMissedWhileDisconnected(t *testing.T) {
	for missed := range int64(2) {
		t.Run(fmt.Sprint("from ", missed), func(t *testing.T) {
			reached, emit, resume := make(chan struct{}), make(chan struct{}), make(chan struct{})
			run := func(ctx context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
				for i := range missed + 1 {
					if i == missed {
						close(reached)
						<-emit
					}
					if err := sink.Emit(ctx, envelope.ChunkData, jsontext.Value(`0`)); err != nil {
						return tool.Result{}, err
					}
				}
				select {
				case <-resume:
				case <-ctx.Done():
				}
				return tool.Result{Output: []byte(`{}`)}, ctx.Err()
			}
			d := deploy(t, map[string]spec{"count": {class: call.Pure, streaming: true, run: run}})
			d.dispatcher()
			d.executor(6)
			door := &gate{}
			nc := d.srv.Connect(t, nats.MaxReconnects(-1), nats.SetCustomDialer(door))
			c, err := clientlib.New(nc, clientlib.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			seen, done := make(chan int64, 10), make(chan struct{})
			go func() {
				defer close(done)
				r, err := c.Call(context.WithoutCancel(t.Context()), clientlib.Call{
					Tool: "count", Timeout: 60 * time.Second, Retry: &envelope.RetryPolicy{MaxAttempts: 1},
					OnChunk: func(chunk envelope.Chunk) error { seen <- chunk.Index; return nil },
				})
				if err != nil || r.Status != envelope.Success {
					t.Errorf("%+v, %v", r, err)
				}
			}()
			<-reached
			for i := range missed {
				if got := <-seen; got != i {
					t.Fatalf("chunk %d, want %d", got, i)
				}
			}
			open := door.close()
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			close(emit)
			d.awaitChunks(uint64(missed) + 1)
			open()
			select {
			case got := <-seen:
				if got != missed {
					t.Errorf("chunk %d, want %d", got, missed)
				}
			case <-done:
				t.Error("the call ended before the chunk came")
			}
			close(resume)
			<-done
		})
	}
}

// awaitChunks waits until so many frames are stored.
func (d *busDeployment) awaitChunks(n uint64) {
	d.t.Helper()
	js := d.srv.JetStream(d.t)
	for {
		stream, err := js.Stream(d.t.Context(), subjects.ChunksStream)
		if err != nil {
			d.t.Fatal(err)
		}
		if stream.CachedInfo().State.LastSeq >= n {
			return
		}
	}
}

// A joiner gets all chunks, from the beginning.
func TestJoinerStreams(t *testing.T) {
	paused, resume := make(chan struct{}), make(chan struct{})
	d := deploy(t, map[string]spec{"count": {class: call.Pure, streaming: true, run: counter(100, 50, paused, resume)}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	outcomes := make(chan int, 2)
	read := func(accepted func(envelope.Accepted)) {
		n := 0
		r, err := c.Call(context.WithoutCancel(t.Context()), clientlib.Call{
			Tool: "count", Key: "stream-key-0123456789", OnAccepted: accepted,
			OnChunk: func(envelope.Chunk) error { n++; return nil },
		})
		if err != nil || r.Status != envelope.Success {
			t.Errorf("%+v, %v", r, err)
		}
		outcomes <- n
	}
	go read(nil)
	<-paused
	go read(func(envelope.Accepted) { close(resume) })
	for range 2 {
		if n := <-outcomes; n != 100 {
			t.Errorf("%d chunks", n)
		}
	}
}

// A joiner who is another actor gets chunks while the call runs, though live ones go to its owner's actor.
func TestOtherActorStreams(t *testing.T) {
	paused, resume := make(chan struct{}), make(chan struct{})
	d := deploy(t, map[string]spec{"count": {class: call.Pure, streaming: true, run: counter(100, 50, paused, resume)}})
	d.dispatcher()
	d.executor(6)
	shared := clientlib.Call{Tool: "count", Key: "stream-key-0123456789", KeyScope: envelope.ScopeGlobal}
	owner, joiner := d.client(), d.clientOf("agent://other")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := owner.Call(context.WithoutCancel(t.Context()), shared); err != nil || r.Status != envelope.Success {
			t.Errorf("owner: %+v, %v", r, err)
		}
	}()
	<-paused
	n := 0
	shared.OnChunk = func(envelope.Chunk) error {
		if n++; n == 50 { // the tool waits for this reader
			close(resume)
		}
		return nil
	}
	r, err := joiner.Call(t.Context(), shared)
	if err != nil || r.Status != envelope.Success || n != 100 {
		t.Errorf("%d chunks, %+v, %v", n, r, err)
	}
	<-done
}

// A stored outcome is returned to whoever shares its key, also when its chunks are not kept any more.
func TestStoredOutcomeStreams(t *testing.T) {
	d := deploy(t, map[string]spec{"count": {class: call.Pure, streaming: true, run: counter(10, -1, nil, nil)}})
	d.dispatcher()
	d.executor(6)
	shared := clientlib.Call{Tool: "count", Key: "stream-key-0123456789", KeyScope: envelope.ScopeGlobal,
		OnChunk: func(envelope.Chunk) error { return nil }}
	owner, other := d.client(), d.clientOf("agent://other")
	wantStatus(t, mustCall(t, owner, shared), envelope.Success, "")
	wantStored := func(c *clientlib.Client) *envelope.Response {
		t.Helper()
		r := mustCall(t, c, shared)
		wantStatus(t, r, envelope.Success, "")
		if !r.Provenance.Replayed || !r.Provenance.Final {
			t.Errorf("%+v", r.Provenance)
		}
		return r
	}
	wantStored(other)
	stream, err := d.srv.JetStream(t).Stream(t.Context(), subjects.ChunksStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*clientlib.Client{owner, other} {
		if r := wantStored(c); len(r.Warnings) != 1 {
			t.Errorf("warnings %v", r.Warnings)
		}
	}
}
