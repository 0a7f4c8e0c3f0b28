package client

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxSubscriptions is the largest number of resources that one connection subscribes to.
const MaxSubscriptions = 256

// subscribeTime is the longest wait for the answer of a server: other subscriptions wait for it.
const subscribeTime = 10 * time.Second

// Methods of subscriptions.
const (
	methodListen  = "subscriptions/listen"
	methodAgreed  = "notifications/subscriptions/acknowledged"
	methodUpdated = "notifications/resources/updated"
)

// Listener hears of one resource. Its functions must not block.
type Listener struct {
	Updated func(uri string) // the resource, or one below it, was updated
	Ended   func()           // the server has ended the subscription
}

// Refusals that no server has sent.
var (
	errNoSubscriptions = &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: "the server has no subscriptions to this resource",
	}
	errTooMany = &jsonrpc.Error{
		Code:    http.StatusServiceUnavailable,
		Message: fmt.Sprintf("an executor subscribes to at most %d resources of a server", MaxSubscriptions),
		Data:    []byte(`{"code":"R-CAP-001","fix":"unsubscribe from some, or start another executor"}`),
	}
)

// subscriptions are those of one connection.
type subscriptions struct {
	turn chan struct{} // holds an element while a request is sent: one resource after the other

	mu  sync.Mutex
	all map[string]*subscription // by URI
}

func newSubscriptions() *subscriptions {
	return &subscriptions{turn: make(chan struct{}, 1), all: map[string]*subscription{}}
}

// subscription is that of a connection to one resource. Several listeners share it.
type subscription struct {
	uri       string
	begun     bool // for the holder of turn: the server has the subscription
	listeners map[*Listener]bool

	// For the request subscriptions/listen, from protocol 2026-07-28 on.
	request flight
	id      jsonrpc.ID    // of the request
	said    chan error    // gets one element: nil when the server has acknowledged the request
	agreed  bool          // said has got it
	over    chan struct{} // closed when the server has ended the subscription
}

// subscribes reports whether the server has subscriptions to resources that this client can use. Before protocol
// 2026-07-28, a server with a URL needs a stream for notifications, which not every server has.
func (c *Conn) subscribes(ctx context.Context) bool {
	has := c.session.InitializeResult().Capabilities
	if has == nil || has.Resources == nil || !has.Resources.Subscribe {
		return false
	}
	over, isHTTP := c.way.(*session)
	return !isHTTP || c.asksCallers() || over.announced.hears(ctx)
}

// Subscribe makes l hear of a resource until end is called, once. The error is *jsonrpc.Error if the server refused,
// or the connection has [MaxSubscriptions].
func (c *Conn) Subscribe(ctx context.Context, uri string, l *Listener) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, subscribeTime)
	defer cancel()
	s := c.router.subscriptions
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sub, err := s.add(uri, l)
	if err != nil {
		return nil, err
	}
	if !sub.begun {
		if err = errNoSubscriptions; c.subscribes(ctx) {
			err = c.subscribe(ctx, sub)
		}
		if err != nil {
			s.remove(sub, l)
			s.forget(sub)
			return nil, err
		}
		sub.begun = true
	}
	return func() { c.unsubscribe(context.WithoutCancel(ctx), sub, l) }, nil
}

// subscribe sends the request, and waits for the answer of the server.
func (c *Conn) subscribe(ctx context.Context, sub *subscription) error {
	if !c.asksCallers() {
		err := c.session.Subscribe(ctx, &mcp.SubscribeParams{URI: sub.uri})
		if said, is := errors.AsType[*jsonrpc.Error](err); is {
			return said
		}
		return err
	}
	end := &mcp.UnsubscribeParams{URI: sub.uri}
	_ = c.session.Unsubscribe(ctx, end) // the SDK sends no other request while it knows one that the server has ended
	go func() {                         // over HTTP, the SDK waits for the head of the answer, until Unsubscribe
		if err := c.session.Subscribe(ctx, &mcp.SubscribeParams{URI: sub.uri}); err != nil {
			c.router.subscriptions.end(sub, err)
		}
	}()
	var err error
	select {
	case err = <-sub.said:
	case <-c.broken:
		err = c.way.lost()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.session.Unsubscribe(ctx, end) // ends the request, if it was sent
		c.router.of(sub.id)
	}
	return err
}

// unsubscribe ends the subscription of a listener, and that of the connection with the last one. If the server does not
// answer in time, the connection keeps the subscription for the next listener.
func (c *Conn) unsubscribe(ctx context.Context, sub *subscription, l *Listener) {
	s := c.router.subscriptions
	if !s.remove(sub, l) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, politeness)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	if !s.forget(sub) {
		return
	}
	_ = c.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: sub.uri}) // an error means that the connection has ended
	defer c.router.of(sub.id)
	if _, isProcess := c.way.(*process); !isProcess || !c.asksCallers() {
		return
	}
	select { // the Go SDK's server ends a younger subscription to the same resource, too, when it ends this one
	case <-sub.over:
	case <-c.broken:
	case <-ctx.Done():
	}
}

// add adds a listener to the subscription to a resource, which it makes if it is missing.
func (s *subscriptions) add(uri string, l *Listener) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.all[uri]
	if sub == nil {
		if len(s.all) >= MaxSubscriptions {
			return nil, errTooMany
		}
		sub = &subscription{
			uri: uri, listeners: map[*Listener]bool{}, said: make(chan error, 1), over: make(chan struct{}),
		}
		sub.request.end = func(err error) { s.end(sub, err) }
		s.all[uri] = sub
	}
	sub.listeners[l] = true
	return sub, nil
}

// remove removes a listener. It reports whether that was the last one.
func (s *subscriptions) remove(sub *subscription, l *Listener) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(sub.listeners, l)
	return len(sub.listeners) == 0
}

// forget removes a subscription without listeners. It returns false if it has one, or was removed before.
func (s *subscriptions) forget(sub *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[sub.uri] != sub || len(sub.listeners) > 0 {
		return false
	}
	delete(s.all, sub.uri)
	return true
}

// end handles the end of a request subscriptions/listen: it is refused, or the server has ended it, so that the next
// listener needs another one.
func (s *subscriptions) end(sub *subscription, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-sub.over:
		return
	default:
		close(sub.over)
	}
	if s.all[sub.uri] == sub {
		delete(s.all, sub.uri)
	}
	if !sub.agreed {
		sub.agreed = true
		sub.said <- cmp.Or(err, error(errNoSubscriptions))
		return
	}
	for l := range sub.listeners {
		l.Ended()
	}
}

// missed tells all listeners of an update of their resources: one may have been missed.
func (s *subscriptions) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, sub := range s.all {
		for l := range sub.listeners {
			l.Updated(uri)
		}
	}
}

// endAll ends all subscriptions: the server does not tell of updates any more.
func (s *subscriptions) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, sub := range s.all {
		delete(s.all, uri)
		for l := range sub.listeners {
			l.Ended()
		}
	}
}

// sending returns the flight of the request that a message is, or nil.
func (s *subscriptions) sending(req *jsonrpc.Request) *flight {
	var p struct {
		Notifications struct {
			URIs []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	if req.Method != methodListen || stdjson.Unmarshal(req.Params, &p) != nil || len(p.Notifications.URIs) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.all[p.Notifications.URIs[0]]
	if sub == nil {
		return nil
	}
	sub.id = req.ID
	return &sub.request
}

// notified handles a notification about subscriptions.
func (s *subscriptions) notified(msg *jsonrpc.Request) {
	var p struct {
		URI           string `json:"uri"`
		Notifications struct {
			URIs []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
		Meta map[string]any `json:"_meta"`
	}
	if stdjson.Unmarshal(msg.Params, &p) != nil {
		return
	}
	id, err := idOf(p.Meta[mcp.MetaKeySubscriptionID])
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, sub := range s.all {
		switch {
		case msg.Method == methodUpdated && covers(uri, p.URI):
			for l := range sub.listeners {
				l.Updated(p.URI)
			}
		case msg.Method == methodAgreed && err == nil && sub.id == id && !sub.agreed:
			sub.agreed = true
			if slices.Contains(p.Notifications.URIs, uri) {
				sub.said <- nil
			} else {
				sub.said <- errNoSubscriptions
			}
		}
	}
}

// covers reports whether an update of a resource is for a subscriber of another one: of the same, or of one above it.
func covers(subscribed, updated string) bool {
	return subscribed == updated || strings.HasPrefix(updated, strings.TrimSuffix(subscribed, "/")+"/")
}
