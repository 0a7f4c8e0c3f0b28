package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// leaveTime is the longest time that running calls get to end after the client has disconnected or the gateway is
// stopped.
const leaveTime = 10 * time.Second

// conn is the connection of a client over the stdio transport. It reports the end of the input to the library only
// after every request is answered, because the library drops running requests at the end of the input.
type conn struct {
	name   string // name of the session
	most   int64
	to     *answers
	lines  <-chan line
	closed chan struct{} // closed when the library closes the connection
	close  func()
	told   chan struct{} // closed when the gateway stops
	tell   func()
	over   context.Context // ends when the gateway no longer waits for the calls of this client
	leave  context.CancelCauseFunc

	// Only Read uses the fields below.
	rest    []*incoming // messages of the last line
	ended   error       // why there are no more lines; io.EOF at the end of the input
	batches bool        // the client initialized a protocol with batches

	mu    sync.Mutex
	last  bool                     // the input has ended
	open  map[jsonrpc.ID]*incoming // requests without an answer, by the id for the library
	quiet chan struct{}            // closed when the input has ended and every request is answered; nil before it ends
	late  chan struct{}            // closed when leaveTime was not enough
}

// incoming is a message of the client.
type incoming struct {
	msg   jsonrpc.Message
	id    jsonrpc.ID // id that the client sent
	group *batch     // nil outside of batches

	unlistened bool // cancelled at the end of the input
	cancelled  bool // by the client, so it gets no answer
}

func newConn(in io.Reader, out io.Writer, most int64) *conn {
	c := &conn{
		name: rand.Text(), most: most, to: &answers{w: out}, open: map[jsonrpc.ID]*incoming{},
		closed: make(chan struct{}), told: make(chan struct{}), late: make(chan struct{}),
	}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	c.tell = sync.OnceFunc(func() { close(c.told) })
	c.over, c.leave = context.WithCancelCause(context.Background())
	c.lines = readLines(in, most, c.closed)
	return c
}

// SessionID implements sdk.Connection. A session over stdio has no id for the library.
func (*conn) SessionID() string { return "" }

// Close implements sdk.Connection.
func (c *conn) Close() error {
	c.close()
	c.leave(errLeft)
	return nil
}

// stop makes Read end the session. Running requests are answered with an error that the gateway closes. If the client
// has ended its input, they are cancelled instead.
func (c *conn) stop() { c.tell() }

// Read implements sdk.Connection.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.rest) > 0 {
			next := c.rest[0]
			c.rest = c.rest[1:]
			return c.accept(next), nil
		}
		if c.ended != nil && !c.unlisten() {
			c.drain()
			return nil, c.ended
		}
		if c.ended != nil {
			continue
		}
		select {
		case l := <-c.lines:
			if err := c.take(l); err != nil {
				return nil, err
			}
			if l.err != nil {
				c.end(l.err)
			}
		case <-c.told:
			c.leave(errClosed)
			c.ended = io.EOF
		case <-c.closed:
			return nil, io.EOF
		}
	}
}

// end records the end of the input. From now on conn sends only answers: a client that waits for the server to end
// expects nothing else, and the official Python SDK kills a server that sends other messages.
func (c *conn) end(err error) {
	c.ended = err
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = true
}

// take parses a line, and answers an invalid one.
func (c *conn) take(l line) error {
	if l.empty() {
		return nil
	}
	all, group, wrong := c.parse(l)
	if wrong != nil {
		_, err := c.to.Write(wrong.lines())
		return err
	}
	for _, msg := range all {
		c.rest = append(c.rest, &incoming{msg: msg, group: group})
	}
	return nil
}

// accept registers a request. If a client cancels an id that it has used for several running requests, accept cancels
// all of them. A cancelled request gets no answer, in all versions of the protocol.
func (c *conn) accept(m *incoming) jsonrpc.Message {
	req, ok := m.msg.(*jsonrpc.Request)
	switch {
	case !ok:
		return m.msg
	case !req.IsCall():
		if req.Method == "notifications/cancelled" {
			c.cancelTwins(req)
		}
		return req
	}
	m.id = req.ID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[req.ID] != nil { // the library would not answer a second request with the id, so use a random one
		req.ID, _ = jsonrpc.MakeID(c.name + "-" + rand.Text()) // a string is a valid id
	}
	c.open[req.ID] = m
	req.Extra = &sdk.RequestExtra{
		Header:    http.Header{headerSession: {c.name}, headerID: {typedID(m.id)}},
		TokenInfo: &auth.TokenInfo{Extra: map[string]any{overKey: c.over}},
	}
	return req
}

// overKey is the key in TokenInfo.Extra under which the library passes conn.over with each request.
const overKey = "over"

// cancelTwins cancels all requests with the id in a cancellation. The library cancels the first one.
func (c *conn) cancelTwins(req *jsonrpc.Request) {
	var named struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(req.Params, &named) != nil {
		return
	}
	id, err := jsonrpc.MakeID(named.ID)
	if err != nil || !id.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for known, m := range c.open {
		if m.id != id {
			continue
		}
		m.cancelled = m.mayCancel()
		if known != id {
			c.cancel(known)
		}
	}
}

// mayCancel reports whether a client may cancel the request so that it gets no answer.
func (m *incoming) mayCancel() bool {
	req, ok := m.msg.(*jsonrpc.Request)
	return ok && req.Method != "initialize" && req.Method != "subscriptions/listen"
}

// cancel makes Read return a cancellation.
func (c *conn) cancel(id jsonrpc.ID) {
	params, err := json.Marshal(map[string]any{"requestId": id.Raw()})
	if err != nil {
		panic("unreachable: " + err.Error()) // a text or a number
	}
	msg := &jsonrpc.Request{Method: "notifications/cancelled", Params: params}
	c.rest = append(c.rest, &incoming{msg: msg})
}

// unlisten makes Read return a cancellation for each subscriptions/listen request, which would never end otherwise. It
// reports whether Read has messages to return.
func (c *conn) unlisten() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.open {
		if req, ok := m.msg.(*jsonrpc.Request); ok && req.Method == "subscriptions/listen" && !m.unlistened {
			m.unlistened = true
			c.cancel(id)
		}
	}
	return len(c.rest) > 0
}

// quieten creates quiet, which the last answer closes.
func (c *conn) quieten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = make(chan struct{})
	if len(c.open) == 0 {
		close(c.quiet)
	}
}

// drain waits until every request is answered.
func (c *conn) drain() {
	c.quieten()
	var watching sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		if unread(ctx, c.to.w) {
			c.leave(errLeft)
		}
	})
	select {
	case <-c.quiet:
		return
	case <-c.closed:
		return
	case <-c.told:
		c.leave(errLeft) // no effect if they were ended before
	case <-c.over.Done():
	}
	late := time.NewTimer(leaveTime)
	defer late.Stop()
	select {
	case <-c.quiet:
	case <-c.closed:
	case <-late.C:
		close(c.late)
	}
}

// Write implements sdk.Connection.
func (c *conn) Write(_ context.Context, msg jsonrpc.Message) error {
	resp, ok := msg.(*jsonrpc.Response)
	if !ok {
		c.mu.Lock()
		last := c.last
		c.mu.Unlock()
		if last {
			return nil
		}
		text, err := jsonrpc.EncodeMessage(msg)
		if err != nil {
			return err
		}
		_, err = c.to.Write(append(text, '\n'))
		return err
	}
	c.mu.Lock()
	group := c.open[resp.ID]
	if group == nil {
		group = &incoming{id: resp.ID}
	}
	cancelled := group.cancelled
	c.mu.Unlock()
	answer := *resp
	answer.ID = group.id
	text, err := jsonrpc.EncodeMessage(&answer)
	if err != nil {
		id, _ := json.Marshal(group.id.Raw()) // a text or a number
		text = bytes.TrimSpace(refusal(id, jsonrpc.CodeInternalError, err.Error()))
	}
	if text = coded(text); cancelled {
		text = nil
	}
	if group.group != nil {
		text = c.gather(group.group, text)
	}
	if text != nil {
		_, err = c.to.Write(append(text, '\n'))
	}
	c.answered(resp.ID)
	return err
}

// gather adds an answer, or nil for none, to a batch. If it is the last one, gather returns all answers, if there are
// any, and otherwise nil.
func (c *conn) gather(group *batch, text []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text != nil {
		group.answers = append(group.answers, text)
	}
	if group.left--; group.left > 0 || len(group.answers) == 0 {
		return nil
	}
	return append(append([]byte{'['}, bytes.Join(group.answers, []byte{','})...), ']')
}

// answered removes a request that is answered.
func (c *conn) answered(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] == nil {
		return
	}
	delete(c.open, id)
	if c.quiet != nil && len(c.open) == 0 {
		close(c.quiet)
	}
}
