package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Times of calls that listen to resources.
const (
	silence    = 4 * time.Second  // without a chunk: less than a lease, so that no executor takes the call over
	listenWait = 30 * time.Second // until the executor says that the server has the subscriptions
	renewPause = 250 * time.Millisecond
	maxRenew   = 30 * time.Second
)

// codeBusy is the code of an executor that has no slot for another call that listens.
const codeBusy = "R-CAP-SERVER_BUSY"

// listenRetry makes a call again that finds an executor busy: a cancelled call may not have ended yet.
var listenRetry = envelope.RetryPolicy{MaxAttempts: 5, RetryableErrors: []string{codeBusy}}

// groupKey identifies a group.
type groupKey struct {
	tools *viewer // of the caller
	tool  string  // with the methods of the server
	as    string  // role, lane, run and scope of the calls, and the protocol
}

// group holds the subscriptions of one caller at one server. While there are subscriptions, a call of a function of the
// server runs that tells of updates. When there are more resources, another call begins before the former one ends.
type group struct {
	*subscriptions
	key  groupKey
	of   *passing // makes the calls
	tool *Definition
	wake chan struct{} // gets an element when a subscriber waits, or the last one has left

	// Guarded by mu of the subscriptions.
	wanted  map[string]map[*subscriber]bool // by URI
	waiting []waiter
}

// waiter is a subscriber that waits until the server has its subscription.
type waiter struct {
	uri  string
	done chan error // has room for the result
}

// listening is a call that tells of updates. Its zero value stands for a missing call.
type listening struct {
	uris    []string
	stop    context.CancelFunc
	ready   chan struct{} // closed when the server has the subscriptions
	ended   chan struct{} // closed when the call has ended
	err     error         // set before ended is closed
	refused map[string]error
	renew   <-chan time.Time // when to replace the call. Set before ready is closed, as refused and silent
	silent  *time.Timer      // stops the call
}

// join subscribes to a resource of one server. It returns when the server has the subscription.
func (h *subscriber) join(ctx context.Context, p *passing, d *Definition, uri string) error {
	g, done, err := h.joined(p, d, uri)
	if err == nil {
		select {
		case err = <-done:
		case <-ctx.Done():
			err = unlisted(context.Cause(ctx))
		}
	}
	if err == nil || g == nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g.leave(h, uri)
	if at := slices.DeleteFunc(h.at[uri], func(other *group) bool { return other == g }); len(at) > 0 {
		h.at[uri] = at
	} else {
		delete(h.at, uri)
	}
	return err
}

// joined adds a subscription to the group of a caller at a server. The channel gets the result.
func (h *subscriber) joined(p *passing, d *Definition, uri string) (*group, <-chan error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		return nil, nil, &jsonrpc.Error{Code: codeCancelled, Message: "the client has gone"}
	}
	if len(h.at) >= maxSubscriptions && h.at[uri] == nil {
		return nil, nil, crowded("a session subscribes to at most 64 resources")
	}
	g, err := h.groupOf(p, d)
	if err != nil {
		return nil, nil, err
	}
	if len(g.wanted) >= maxListened && g.wanted[uri] == nil {
		return nil, nil, crowded("a caller subscribes to at most 256 resources of a server")
	}
	if g.wanted[uri] == nil {
		g.wanted[uri] = map[*subscriber]bool{}
	}
	g.wanted[uri][h] = true
	if !slices.Contains(h.at[uri], g) {
		h.at[uri] = append(h.at[uri], g)
	}
	done := make(chan error, 1)
	g.waiting = append(g.waiting, waiter{uri, done})
	notify(g.wake)
	return g, done, nil
}

func crowded(why string) error {
	return failure(codeUnavailable, envelope.NewError(envelope.CodeCapacity, why).
		WithFix("unsubscribe from some first").WithEffect(envelope.EffectNone))
}

// groupOf returns the group of a caller at a server. Callers hold s.mu.
func (s *subscriptions) groupOf(p *passing, d *Definition) (*group, error) {
	as := said{role: p.said.role, lane: p.said.lane, run: p.said.run, scope: p.said.scope}
	key := groupKey{p.peer.tools, d.Tool, string(encoded([]any{as.role, as.lane, as.run, as.scope, p.peer.protocol}))}
	if g := s.groups[key]; g != nil {
		return g, nil
	}
	if s.closed {
		return nil, unlisted(errClosed)
	}
	left, err := occupy(s.Server, p.peer)
	if err != nil {
		return nil, err
	}
	g := &group{
		subscriptions: s, key: key, of: &passing{Server: s.Server, peer: p.peer, said: as}, tool: d,
		wake: make(chan struct{}, 1), wanted: map[string]map[*subscriber]bool{},
	}
	s.groups[key] = g
	s.running.Go(func() {
		defer left()
		g.serve()
	})
	return g, nil
}

// leave ends a subscription. Callers hold g.mu.
func (g *group) leave(held *subscriber, uri string) {
	delete(g.wanted[uri], held)
	if len(g.wanted[uri]) == 0 {
		delete(g.wanted, uri)
	}
	if len(g.wanted) == 0 {
		notify(g.wake)
	}
}

// take returns the wanted resources, sorted, and those who wait. Without such resources it removes the group.
func (g *group) take() (uris []string, waiting []waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting, g.waiting = g.waiting, nil
	if len(g.wanted) == 0 {
		delete(g.groups, g.key)
	}
	return slices.Sorted(maps.Keys(g.wanted)), waiting
}

// serve keeps a call running while there are subscriptions. It replaces the call when a subscriber waits for another
// resource, in time before its deadline, and when it has ended by itself. Then an update may have been missed, so all
// resources count as updated.
func (g *group) serve() {
	now, last, pause, again := &listening{}, &listening{}, renewPause, (<-chan time.Time)(nil)
	defer func() {
		now.end()
		last.end()
	}()
	for missed := false; ; {
		renewing := true
		select {
		case <-g.wake:
			renewing = false
		case <-again:
		case <-now.renew:
		case <-now.ended:
			now, missed = &listening{}, true
		case <-g.open.Done():
			return
		}
		uris, waiting := g.take()
		if len(uris) == 0 {
			answer(waiting, func(string) error { return unlisted(context.Canceled) }) // they have unsubscribed
			return
		}
		if !renewing && !slices.ContainsFunc(waiting, func(w waiter) bool { return !now.has(w.uri) }) {
			answer(waiting, func(string) error { return nil })
			continue
		}
		last.end() // a caller has no more than two calls
		next, err := g.listen(uris)
		if err != nil {
			answer(waiting, func(string) error { return err })
			if renewing {
				again, pause = time.After(pause), min(2*pause, maxRenew)
			}
			continue
		}
		if missed {
			for _, uri := range uris {
				g.tell(uri, uri)
			}
		}
		answer(waiting, func(uri string) error { return next.refused[uri] })
		now.cancel()
		last, now, missed, again, pause = now, next, false, nil, renewPause
	}
}

func answer(waiting []waiter, result func(uri string) error) {
	for _, w := range waiting {
		w.done <- result(w.uri)
	}
}

// has reports whether the call tells of updates of a resource.
func (l *listening) has(uri string) bool {
	_, is := slices.BinarySearch(l.uris, uri)
	return is && l.refused[uri] == nil
}

func (l *listening) cancel() {
	if l.stop != nil {
		l.stop()
	}
}

// end cancels the call, and returns when it has ended.
func (l *listening) end() {
	l.cancel()
	if l.ended != nil {
		<-l.ended
	}
}

// listen begins a call, and returns it when the server has its subscriptions.
func (g *group) listen(uris []string) (*listening, error) {
	ctx, stop := context.WithCancel(g.open)
	l := &listening{
		uris: uris, stop: stop, ready: make(chan struct{}), ended: make(chan struct{}), refused: map[string]error{},
	}
	go g.run(ctx, l)
	select {
	case <-l.ready:
		return l, nil
	case <-l.ended:
	case <-time.After(listenWait):
	}
	l.end()
	return nil, l.err
}

// run makes the call of l, until it ends or ctx does.
func (g *group) run(ctx context.Context, l *listening) {
	defer close(l.ended)
	a := g.of.fresh(g.tool, map[string]any{"uris": l.uris}, listenRetry)
	a.call.OnChunk = func(c envelope.Chunk) error { return g.heard(l, c) }
	resp, err := a.run(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		l.err = protocolError(err)
	case err == nil && resp.Error != nil:
		_, l.err = methodError(resp, g.of.peer.protocol)
	default:
		l.err = noAnswer(errors.New("no executor has begun to listen"), envelope.EffectNone)
	}
}

// heard is called with the chunks of a call.
func (g *group) heard(l *listening, c envelope.Chunk) error {
	var told struct {
		RenewMS int64                     `json:"renew_ms"`
		Refused map[string]*jsonrpc.Error `json:"refused"`
		Updated map[string][]string       `json:"updated"`
	}
	if json.Unmarshal(c.Data, &told) != nil {
		return nil
	}
	for uri, updated := range told.Updated {
		g.tell(uri, updated...)
	}
	switch {
	case l.silent != nil && told.RenewMS > 0: // another executor has taken the call over, and starts no other call
		l.stop()
	case l.silent != nil:
		l.silent.Reset(silence)
	case told.RenewMS > 0:
		for uri, refused := range told.Refused {
			if refused != nil {
				l.refused[uri] = inProtocol(refused, g.of.peer.protocol)
			}
		}
		l.renew = time.After(time.Duration(told.RenewMS) * time.Millisecond)
		l.silent = time.AfterFunc(silence, l.stop)
		close(l.ready)
	}
	return nil
}

// tell notifies the subscribers of a resource that others were updated: the same, or ones below it.
func (g *group) tell(uri string, updated ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for held := range g.wanted[uri] {
		for _, one := range updated {
			held.note(uri, one)
		}
	}
}
