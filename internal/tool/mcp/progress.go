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

// Bounds of the progress of one call. What a server tells faster than that is thinned out: of what waits, the last one
// stands for those before it.
const (
	progressBurst   = 50                    // are passed on at once
	progressPause   = 50 * time.Millisecond // and then one in this time
	progressWaiting = 32
	progressBytes   = 16 << 10 // of one; larger ones are left out
)

// progressQueue passes on what a server tells while a call is under way. The reader of the connection hands it over and
// must not wait for whoever takes chunks, since all calls of the server need it.
type progressQueue struct {
	sink  tool.Sink
	limit int64 // bytes of chunks and output together
	end   context.CancelCauseFunc

	mu     sync.Mutex
	queue  []chunk
	loose  int   // of the queue, those that may be left out
	bytes  int64 // of those that may not, so far
	closed bool
	wake   chan struct{}
}

// chunk is what is passed on.
type chunk struct {
	kind  envelope.ChunkKind
	data  jsontext.Value
	loose bool // it may be left out
}

// newRelay returns one that passes nothing on where nobody would get it.
func newRelay(m *tool.Manifest, sink tool.Sink) *progressQueue {
	if !m.Capability.Streaming {
		sink = nil
	}
	return &progressQueue{sink: sink, limit: m.Limits.OutputBytes, wake: make(chan struct{}, 1)}
}

// call makes a call, and passes on what comes meanwhile. It returns when there is an answer, or ctx has ended.
func (r *progressQueue) call(ctx context.Context, conn *client.Conn, request client.Request) (client.Answer, error) {
	ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	if r.sink == nil {
		return conn.Call(ctx, request)
	}
	request.Progress = r.take
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

// emit passes one on, and ends the call where that fails.
func (r *progressQueue) emit(ctx context.Context, c chunk) {
	if err := r.sink.Emit(ctx, c.kind, c.data); err != nil {
		r.close() // what comes after a gap is of no use
		if ctx.Err() == nil {
			r.end(&tool.SinkError{Err: err})
		}
	}
}

// flush passes on what has come before the answer.
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

// close lets go of what waits, and takes no more.
func (r *progressQueue) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.queue, r.loose = true, nil, 0
}

// next returns the first that waits; one that may be left out only if there is time for it.
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

// passed is how many bytes of chunks count towards the limit of the output.
func (r *progressQueue) passed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// take takes the params of a notification.
func (r *progressQueue) take(params jsontext.Value) {
	c, ok := read(params)
	if !ok {
		return
	}
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

// replace puts c where the last one stands that may be left out.
func (r *progressQueue) replace(c chunk) {
	for i, other := range slices.Backward(r.queue) {
		if other.loose {
			r.queue[i] = c
			return
		}
	}
}

// read makes a chunk of the params of a notification. ok is false where they are of no use.
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

// readChunk reads one that a server sends which is written for Toolbus.
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

// failure is the error of a call that has no answer.
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

// isOurs reports whether an error is why the relay has ended a call.
func (*progressQueue) isOurs(err error) bool {
	_, sink := errors.AsType[*tool.SinkError](err)
	_, limit := errors.AsType[*tool.LimitError](err)
	return sink || limit
}

// pace says when there is time for progress.
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
