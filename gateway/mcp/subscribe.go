package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Methods of subscriptions to resources. In protocol 2026-07-28 the request subscriptions/listen has the resources, and
// its end is that of the subscriptions.
const (
	methodSubscribe = "resources/subscribe"
	methodUpdated   = "notifications/resources/updated"
)

// Largest numbers: of subscriptions of a subscriber, of resources of one caller at one server, and of updates that wait
// for a client that does not read.
const (
	maxSubscriptions = 64
	maxListened      = 256
	maxUnread        = 1000
)

// subscriptions are those of all clients to resources of servers.
type subscriptions struct {
	*Server
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	groups   map[groupKey]*group
	sessions map[*sdk.ServerSession]*subscriber // of protocols before 2026-07-28
}

// subscriber is a session, or a request subscriptions/listen.
type subscriber struct {
	*subscriptions
	session *sdk.ServerSession
	id      any // of the request; nil for a session
	stop    context.CancelFunc
	wake    chan struct{} // gets an element with each update

	// Guarded by mu of the subscriptions.
	at      map[string][]*group // by URI: the servers that may have the resource; nil after end
	updated []string            // resources of which the client will be notified
}

func newSubscriptions(s *Server) *subscriptions {
	return &subscriptions{Server: s, groups: map[groupKey]*group{}, sessions: map[*sdk.ServerSession]*subscriber{}}
}

// subscribing is for the options of the library, which only then serves the methods.
func subscribing(context.Context, *sdk.SubscribeRequest) error { return nil }

func unsubscribing(context.Context, *sdk.UnsubscribeRequest) error { return nil }

// receive answers a request about subscriptions. next is the library, which sends nothing by itself.
func (s *subscriptions) receive(
	ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler,
) (sdk.Result, error) {
	switch r := req.(type) {
	case *sdk.SubscribeRequest:
		if err := s.subscribe(ctx, r); err != nil {
			return nil, err
		}
	case *sdk.UnsubscribeRequest:
		s.mu.Lock()
		if held := s.sessions[r.Session]; held != nil {
			held.drop(r.Params.URI)
		}
		s.mu.Unlock()
	case *sdk.SubscriptionsListenRequest:
		if n := r.Params.Notifications; n != nil && len(n.ResourceSubscriptions) > 0 {
			held, err := s.listen(ctx, r)
			if held != nil {
				defer held.end()
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return next(ctx, method, req)
}

// subscribe subscribes a session to a resource.
func (s *subscriptions) subscribe(ctx context.Context, r *sdk.SubscribeRequest) error {
	peer, err := s.senderOf(r, r.ProtocolVersion())
	if err != nil {
		return err
	}
	if peer.web && !strings.HasPrefix(peer.asking.session, s.instance+"-") {
		return &jsonrpc.Error{
			Code: codeUnavailable, Message: "the session is of another gateway: begin a new one, which can be notified",
		}
	}
	s.mu.Lock()
	held := s.sessions[r.Session]
	if held == nil {
		if held, err = s.begin(r.Session, nil); err == nil {
			s.sessions[r.Session] = held
			s.running.Go(func() {
				_ = r.Session.Wait() // however it has ended
				held.end()
			})
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	kept, err := held.hold(ctx, peer, r.Params.Meta, r.Params.URI)
	if err == nil && !kept {
		err = notServed(methodSubscribe)
	}
	return err
}

// listen subscribes a request to its resources, and leaves those in it whose servers have subscriptions.
func (s *subscriptions) listen(ctx context.Context, r *sdk.SubscriptionsListenRequest) (*subscriber, error) {
	peer, err := s.senderOf(r, r.ProtocolVersion())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	held, err := s.begin(r.Session, untyped(peer.asking.id))
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, uri := range r.Params.Notifications.ResourceSubscriptions {
		kept, err := held.hold(ctx, peer, r.Params.GetMeta(), uri)
		if err != nil {
			return held, err
		}
		if kept && !slices.Contains(all, uri) {
			all = append(all, uri)
		}
	}
	r.Params.Notifications.ResourceSubscriptions = all
	return held, nil
}

// untyped returns the id that typed had.
func untyped(id string) any {
	if id == "" {
		return nil
	}
	if id[0] == idString {
		return id[1:]
	}
	return json.RawMessage(id[1:])
}

// begin returns a new subscriber, which notifies its client until its end. Callers hold s.mu.
func (s *subscriptions) begin(session *sdk.ServerSession, id any) (*subscriber, error) {
	if s.closed {
		return nil, wireError(errClosed, envelope.EffectNone)
	}
	h := &subscriber{
		subscriptions: s, session: session, id: id, wake: make(chan struct{}, 1), at: map[string][]*group{},
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(s.open)) // a client hears updates while the gateway drains
	h.stop = stop
	s.running.Go(func() { h.deliver(ctx) })
	return h, nil
}

// hold subscribes to a resource at all servers that may have it. kept is false if no server has subscriptions. It
// returns an error if all of them refuse.
func (h *subscriber) hold(
	ctx context.Context, peer *sender, meta map[string]any, uri string,
) (kept bool, err error) {
	if strings.HasPrefix(uri, resultURI) {
		return false, nil // a result does not change
	}
	ctx, leave, err := h.enter(ctx, peer)
	if err != nil {
		return false, err
	}
	defer leave()
	if peer = h.reached(ctx, peer); !h.isConnected(peer) {
		return false, unlisted(errAway)
	}
	p := &passing{Server: h.Server, peer: peer}
	if p.said, err = read(meta, peer.header); err != nil {
		return false, err
	}
	if p.v, err = h.catalogue.refresh(ctx, peer.tools); err != nil {
		return false, unlisted(err)
	}
	for _, reader := range p.readers(ctx, uri) {
		d := p.beside(reader, methodSubscribe)
		if d == nil {
			continue
		}
		if refused := h.join(ctx, p, d, uri); refused == nil {
			kept, err = true, nil
		} else if !kept {
			err = refused
		}
	}
	return kept, err
}

// deliver notifies the client of updates until ctx ends. It has its own goroutine, because a client that does not read
// must not delay others.
func (h *subscriber) deliver(ctx context.Context) {
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		updated := h.updated
		h.updated = nil
		h.mu.Unlock()
		for _, uri := range updated {
			params := &sdk.ResourceUpdatedNotificationParams{URI: uri}
			if h.id != nil {
				params.Meta = sdk.Meta{sdk.MetaKeySubscriptionID: h.id}
			}
			_, _ = h.short.send(ctx, methodUpdated, &sdk.ServerRequest[*sdk.ResourceUpdatedNotificationParams]{
				Session: h.session, Params: params,
			}) // an error means that the client has gone
		}
	}
}

// note adds an update to those that deliver sends. The client learns of a later one of the same resource with it, and
// of one too many by the resource that it subscribes to. Callers hold h.mu.
func (h *subscriber) note(uri, updated string) {
	if len(h.updated) >= maxUnread {
		updated = uri
	}
	if !slices.Contains(h.updated, updated) {
		h.updated = append(h.updated, updated)
	}
	notify(h.wake)
}

// notify wakes the goroutine that reads from a channel with room for one element.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// drop ends a subscription. Callers hold h.mu.
func (h *subscriber) drop(uri string) {
	for _, g := range h.at[uri] {
		g.leave(h, uri)
	}
	delete(h.at, uri)
}

// end ends all subscriptions.
func (h *subscriber) end() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[h.session] == h {
		delete(h.sessions, h.session)
	}
	for uri := range h.at {
		h.drop(uri)
	}
	h.at = nil
}

// close waits until all calls are cancelled, but not for a client that does not read. The context of the gateway and
// all sessions have ended.
func (s *subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(cancelTime + closeTime):
	}
}
