package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Limits of subscriptions.
const (
	maxListens    = 8                       // calls at once that subscribe; see Serves
	busyAfter     = 500 * time.Millisecond  // beyond that
	aliveEvery    = 1500 * time.Millisecond // at most, between two chunks: the caller makes another call without
	listenPause   = 100 * time.Millisecond  // between two chunks
	maxUpdated    = 16                      // resources of an update below one subscribed resource
	maxUpdatedURI = 2 << 10                 // bytes
)

// listened is a chunk of a call of resources_subscribe. The first one has RenewMS.
type listened struct {
	// RenewMS is the time after which the caller makes the next call, before this one ends.
	RenewMS int64                `json:"renew_ms,omitzero"`
	Refused map[string]wireError `json:"refused,omitempty"` // by resource
	Updated map[string][]string  `json:"updated,omitempty"` // updated resources by subscribed resource
}

// listeners bounds the calls of an adapter that subscribe, and ends them. Their callers make them again, at another
// executor.
type listeners struct {
	slots chan struct{}   // holds an element for each call
	over  <-chan struct{} // closed to end the calls, with success
}

// Serves says how many calls the executor runs at once, and until when. At most half of them listen to resources, so
// that others go on; they end with ctx. Other calls may take longer.
func (a *Adapter) Serves(ctx context.Context, slots int) {
	*a.listens = listeners{make(chan struct{}, slots/2), ctx.Done()}
}

// hearing collects what a call hears of its resources.
type hearing struct {
	mu      sync.Mutex
	updated map[string][]string
	wake    chan struct{}
	ended   chan struct{} // closed when the server has ended a subscription
	end     func()
}

// listen subscribes to the resources of a call, and tells the sink of their updates. It ends shortly before the
// deadline of the call. A caller that still listens has made another call by then.
func (p *pool) listen(
	ctx context.Context, l *serverConn, request client.Request, r *progressQueue,
) (statement, error) {
	if r.sink == nil {
		return statement{}, &tool.StartError{Err: errors.New("a tool that does not stream cannot tell of updates")}
	}
	slots, over := p.listens.slots, p.listens.over
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return statement{}, &tool.Error{
			Code: errBusy, Effect: envelope.EffectNone, RetryAfter: busyAfter,
			Message: "half of the executor's slots listen to resources: start another executor, or give it more slots",
		}
	}
	var input struct {
		URIs []string `json:"uris"`
	}
	if err := json.Unmarshal(request.Arguments, &input); err != nil {
		return statement{}, &tool.StartError{Err: err}
	}
	due, _ := ctx.Deadline() // see run
	left := time.Until(due)
	h := &hearing{updated: map[string][]string{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.ended) })
	first, release, err := h.subscribe(ctx, l.conn, input.URIs)
	defer release()
	if err != nil {
		return statement{}, r.failure(ctx, err)
	}
	l.served.Store(true)
	first.RenewMS = max(1, (left / 2).Milliseconds())
	if err := tell(ctx, r.sink, first); err != nil {
		return statement{}, err
	}
	late := time.NewTimer(left * 7 / 8)
	defer late.Stop()
	return h.pass(ctx, l.conn, r.sink, late.C, over)
}

// subscribe subscribes to all resources. It returns an error if the server has refused all of them.
func (h *hearing) subscribe(ctx context.Context, conn *client.Conn, uris []string) (
	first listened, release func(), err error,
) {
	var ends []func()
	first.Refused = map[string]wireError{}
	release = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, uri := range uris {
		end, failed := conn.Subscribe(ctx, uri, &client.Listener{
			Updated: func(updated string) { h.hear(uri, updated) }, Ended: h.end,
		})
		if failed == nil {
			ends = append(ends, end)
			continue
		}
		said, refused := errors.AsType[*jsonrpc.Error](failed)
		if !refused {
			return first, release, failed
		}
		first.Refused[uri], err = wireErrorOf(said), said
	}
	if len(ends) > 0 {
		err = nil
	}
	return first, release, err
}

// hear notes an update. It does not block.
func (h *hearing) hear(of, updated string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(updated) > maxUpdatedURI || len(h.updated[of]) >= maxUpdated {
		updated = of
	}
	if !slices.Contains(h.updated[of], updated) {
		h.updated[of] = append(h.updated[of], updated)
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// pass passes updates on until the call ends.
func (h *hearing) pass(
	ctx context.Context, conn *client.Conn, sink tool.Sink, late <-chan time.Time, over <-chan struct{},
) (statement, error) {
	done := statement{result: tool.Result{Output: jsontext.Value("{}")}}
	for {
		select {
		case <-h.wake:
		case <-time.After(aliveEvery):
		case <-late:
			return done, nil
		case <-over:
			return done, nil
		case <-h.ended:
			return statement{}, &tool.CrashError{How: "the server has ended the subscription"}
		case <-conn.Broken():
			return statement{}, &tool.CrashError{How: "the connection to the server was lost"}
		case <-ctx.Done():
			return statement{}, tool.Stopped(ctx, "", "")
		}
		h.mu.Lock()
		updated := h.updated
		h.updated = map[string][]string{}
		h.mu.Unlock()
		if err := tell(ctx, sink, listened{Updated: updated}); err != nil {
			return statement{}, err
		}
		select {
		case <-time.After(listenPause):
		case <-ctx.Done():
		}
	}
}

// tell passes a chunk to the caller.
func tell(ctx context.Context, sink tool.Sink, what listened) error {
	data, err := json.Marshal(what)
	if err != nil {
		return &tool.ProtocolError{Reason: err.Error()} // an address that is not UTF-8
	}
	err = sink.Emit(ctx, envelope.ChunkProgress, data)
	switch {
	case ctx.Err() != nil:
		return tool.Stopped(ctx, "", "")
	case err == nil:
		return nil
	}
	return &tool.SinkError{Err: err}
}
