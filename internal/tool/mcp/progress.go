package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Limits of the progress of one call. If a server sends progress faster, each new message replaces the last one in the
// queue.
const (
	progressBurst   = 50                    // messages that are passed on at once
	progressPause   = 50 * time.Millisecond // then one message per progressPause
	progressWaiting = 32
	progressBytes   = 16 << 10 // largest progress message; larger ones are dropped
)

// progressQueue passes chunks from a server to the sink while a call runs. The reader of the connection calls take,
// which must not wait for the sink: all calls of the server share that reader.
type progressQueue struct {
	sink  tool.Sink
	limit int64 // bytes of chunks and output together
	end   context.CancelCauseFunc
	asks  *asker

	mu     sync.Mutex
	queue  []chunk
	loose  int   // number of chunks in queue that may be dropped
	bytes  int64 // bytes so far of chunks that may not be dropped
	closed bool
	wake   chan struct{}
}

// chunk is one chunk for the sink.
type chunk struct {
	kind  envelope.ChunkKind
	data  jsontext.Value
	loose bool // it may be dropped
}

// newRelay returns a queue. It passes nothing on if the tool does not stream.
func newRelay(m *tool.Manifest, sink tool.Sink, asks *asker) *progressQueue {
	if !m.Capability.Streaming {
		sink = nil
	}
	return &progressQueue{sink: sink, asks: asks, limit: m.Limits.OutputBytes, wake: make(chan struct{}, 1)}
}

// call calls the server and passes chunks to the sink. It returns when the server has answered or ctx has ended.
func (r *progressQueue) call(ctx context.Context, conn *client.Conn, request client.Request) (client.Answer, error) {
	ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	if r.sink == nil {
		return conn.Call(ctx, request)
	}
	request.Progress = r.take
	if r.asks.caller != nil {
		request.Caller = r.asks.caller.Name
		request.Elicit = func(params jsontext.Value) (jsontext.Value, error) { return r.elicit(ctx, params) }
	}
	type ending struct {
		answer client.Answer
		err    error
	}
	ended := make(chan ending, 1)
	go func() {
		answer, err := conn.Call(ctx, request)
		ended <- ending{answer, err}
	}()
	pace := newPace()
	for {
		var next <-chan time.Time
		if c, ok := r.next(pace.ready()); ok {
			r.emit(ctx, c)
			if c.loose {
				pace.spend()
			}
			continue
		} else if r.waits() {
			next = time.After(progressPause)
		}
		select {
		case <-r.wake:
		case <-next:
		case e := <-ended:
			r.flush(ctx)
			if cause := context.Cause(ctx); e.err == nil && cause != nil && r.isOurs(cause) {
				return e.answer, cause
			}
			return e.answer, e.err
		}
	}
}

// emit passes a chunk to the sink. If that fails, it ends the call.
func (r *progressQueue) emit(ctx context.Context, c chunk) {
	if err := r.sink.Emit(ctx, c.kind, c.data); err != nil {
		r.close() // drop chunks after a gap
		if ctx.Err() == nil {
			r.end(&tool.SinkError{Err: err})
		}
	}
}

// flush passes on the chunks that came before the answer.
func (r *progressQueue) flush(ctx context.Context) {
	for ctx.Err() == nil {
		c, ok := r.next(true)
		if !ok {
			break
		}
		r.emit(ctx, c)
	}
	r.close()
}

// close empties the queue and drops all further chunks.
func (r *progressQueue) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.queue, r.loose = true, nil, 0
}

// next removes and returns the first chunk. It returns a chunk that may be dropped only if ready is true.
func (r *progressQueue) next(ready bool) (c chunk, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.queue[0].loose && !ready {
		return c, false
	}
	c, r.queue = r.queue[0], r.queue[1:]
	if c.loose {
		r.loose--
	}
	return c, true
}

func (r *progressQueue) waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) > 0
}

// passed returns the number of bytes of chunks that count towards the output limit.
func (r *progressQueue) passed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// take queues the chunk in the params of a progress notification.
func (r *progressQueue) take(params jsontext.Value) {
	if c, ok := read(params); ok {
		r.put(c)
	}
}

// put queues a chunk.
func (r *progressQueue) put(c chunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return
	case !c.loose:
		if r.bytes += int64(len(c.data)); r.bytes > r.limit {
			r.end(&tool.LimitError{Limit: r.limit})
			return
		}
		r.queue = append(r.queue, c)
	case r.loose < progressWaiting:
		r.loose++
		r.queue = append(r.queue, c)
	default:
		r.replace(c)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// replace replaces the last chunk that may be dropped by c.
func (r *progressQueue) replace(c chunk) {
	for i, other := range slices.Backward(r.queue) {
		if other.loose {
			r.queue[i] = c
			return
		}
	}
}

// read decodes the params of a progress notification. ok is false if they cannot be passed on.
func read(params jsontext.Value) (c chunk, ok bool) {
	var p struct {
		Progress jsontext.Value            `json:"progress"`
		Total    jsontext.Value            `json:"total,omitzero"`
		Message  string                    `json:"message,omitzero"`
		Meta     map[string]jsontext.Value `json:"_meta,omitzero"`
	}
	if json.Unmarshal(params, &p) != nil {
		return c, false
	}
	if own, has := p.Meta[envelope.MetaChunk]; has {
		return readChunk(own)
	}
	p.Meta = nil
	data, err := json.Marshal(p)
	return chunk{envelope.ChunkProgress, data, true},
		err == nil && len(data) <= progressBytes && len(ijson.Check(data)) == 0
}

// readChunk decodes a chunk that a server written for Toolbus sends in _meta.
func readChunk(own jsontext.Value) (c chunk, ok bool) {
	var p struct {
		Kind envelope.ChunkKind `json:"kind"`
		Data jsontext.Value     `json:"data"`
	}
	if json.Unmarshal(own, &p) != nil || len(p.Data) == 0 || len(ijson.Check(p.Data)) > 0 {
		return c, false
	}
	known := slices.Contains([]envelope.ChunkKind{envelope.ChunkData, envelope.ChunkProgress, envelope.ChunkLog}, p.Kind)
	return chunk{p.Kind, p.Data, false}, known
}

// failure returns the error of a call without an answer.
func (r *progressQueue) failure(ctx context.Context, err error) error {
	unsent, isUnsent := errors.AsType[*client.NotSentError](err)
	switch {
	case r.isOurs(err):
		return err
	case ctx.Err() != nil && isUnsent:
		return tool.Stopped(ctx, envelope.EffectNone, "")
	case ctx.Err() != nil:
		return tool.Stopped(ctx, "", "")
	case isUnsent:
		return &tool.StartError{Err: unsent.Err}
	}
	return translate(err)
}

// isOurs reports whether the queue has ended the call with this error.
func (*progressQueue) isOurs(err error) bool {
	_, sink := errors.AsType[*tool.SinkError](err)
	_, limit := errors.AsType[*tool.LimitError](err)
	return sink || limit
}

// pace limits the rate of progress messages. It is a token bucket of progressBurst tokens that gains one per
// progressPause.
type pace struct {
	credit int
	last   time.Time
}

func newPace() *pace { return &pace{progressBurst, time.Now()} }

func (p *pace) ready() bool {
	if earned := int(time.Since(p.last) / progressPause); earned > 0 {
		p.credit, p.last = min(p.credit+earned, progressBurst), time.Now()
	}
	return p.credit > 0
}

func (p *pace) spend() { p.credit-- }
