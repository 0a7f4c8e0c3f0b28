package client

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// The methods that the router handles.
const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodProgress    = "notifications/progress"
	methodChanged     = "notifications/tools/list_changed"
	methodPrompts     = "notifications/prompts/list_changed"
	methodResources   = "notifications/resources/list_changed"
)

// flight is one open request.
type flight struct {
	limit    int64 // largest answer, in bytes
	progress func(jsontext.Value)
	// shorten returns the result that the SDK gets in place of the server's. The SDK decodes all that it gets, and the
	// server's result is kept in answer.
	shorten func(jsontext.Value) jsontext.Value
	end     context.CancelCauseFunc
	token   string
	id      jsonrpc.ID
	failure atomic.Pointer[error] // why the answer fails, if the cause is known better than from the SDK
	sent    atomic.Bool           // the server may have received part of it
	caller  string
	elicit  func(jsontext.Value) (jsontext.Value, error) // nil if the caller cannot be asked
	answer  jsontext.Value                               // set before the SDK gets the answer
	mended  ijson.Repairs                                // repairs of the answer; set before answer
}

// fail ends the flight with err. Only the first failure counts.
func (f *flight) fail(err error) {
	f.failure.CompareAndSwap(nil, &err)
	if f.end != nil {
		f.end(err)
	}
}

// isListen reports whether the request is subscriptions/listen. Its answer only means that it has ended.
func (f *flight) isListen() bool { return f.shorten == nil && f.end != nil }

// bound returns the largest message that may contain the answer, in bytes.
func (f *flight) bound() int64 { return max(f.limit, minFrame) }

type flightKey struct{}

// flightOf returns the flight of a request that the SDK sends with ctx, or nil.
func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// pendingRequests is the router: it assigns the messages of one connection to flights.
type pendingRequests struct {
	changed      func()       // called when the server announces a change of its tools
	listsChanged func()       // called when the server announces a change of its resources or prompts; may be nil
	heard        atomic.Int64 // received messages

	subscriptions *subscriptions

	mu     sync.Mutex
	last   int64
	ids    map[jsonrpc.ID]*flight
	tokens map[string]*flight
	asked  int // requests from the server
	// left holds the callers of requests without an answer that nobody waits for, by id; crowded after maxLeft of them.
	left    map[jsonrpc.ID]string
	crowded bool
}

func newRouter(changed func()) *pendingRequests {
	return &pendingRequests{
		changed: changed, ids: map[jsonrpc.ID]*flight{}, tokens: map[string]*flight{}, left: map[jsonrpc.ID]string{},
		subscriptions: newSubscriptions(),
	}
}

// begin registers a flight, and sets its progress token.
func (r *pendingRequests) begin(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	f.token = strconv.FormatInt(r.last, 10)
	r.tokens[f.token] = f
}

// end removes a flight. Later messages for it are dropped.
func (r *pendingRequests) end(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tokens, f.token)
	if r.ids[f.id] == f && f.sent.Load() {
		r.leave(f)
	}
	delete(r.ids, f.id)
}

// limit returns the largest message that an open flight allows, in bytes.
func (r *pendingRequests) limit() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := int64(minFrame)
	for _, f := range r.tokens {
		most = max(most, f.limit)
	}
	return most
}

// sending returns the flight of a message that is about to be sent. For a message that belongs to no flight it returns
// a new one, which has no effect.
func (r *pendingRequests) sending(ctx context.Context, msg jsonrpc.Message) *flight {
	req, ok := msg.(*jsonrpc.Request)
	f := flightOf(ctx)
	if ok && f == nil {
		f = r.subscriptions.sending(req)
	}
	if !ok || f == nil || !req.IsCall() {
		return new(flight)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.id = req.ID
	r.ids[req.ID] = f
	return f
}

// of removes and returns the flight with an id: a request has one answer.
func (r *pendingRequests) of(id jsonrpc.ID) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.ids[id]
	delete(r.left, id)
	if f != nil {
		delete(r.ids, id)
		delete(r.tokens, f.token)
	}
	return f
}

// fail ends the flight with the id of a message, if there is one.
func (r *pendingRequests) fail(id jsontext.Value, err error) {
	var plain any
	if json.Unmarshal(id, &plain) != nil {
		return
	}
	known, err2 := idOf(plain)
	if err2 != nil {
		return
	}
	if f := r.of(known); f != nil {
		f.fail(err)
	}
}

// idOf returns the id of a request of this client from that of an answer. The SDK counts its requests, and some servers
// send the number back as text.
func idOf(plain any) (jsonrpc.ID, error) {
	if text, is := plain.(string); is {
		if n, err := strconv.ParseInt(text, 10, 53); err == nil {
			plain = float64(n)
		}
	}
	return jsonrpc.MakeID(plain)
}

// numbered returns a message, and its text if numbered has changed the id of an answer from a text to a number.
func numbered(msg jsonrpc.Message) (jsonrpc.Message, []byte, error) {
	answer, is := msg.(*jsonrpc.Response)
	if !is {
		return msg, nil, nil
	}
	id, err := idOf(answer.ID.Raw())
	if err != nil || id == answer.ID {
		return msg, nil, nil
	}
	answer.ID = id
	text, err := jsonrpc.EncodeMessage(answer)
	return answer, text, err
}

// legible decodes a message. If the SDK cannot decode text, legible decodes the result of [ijson.Mend], and returns
// that text too. If the message is an answer, its flight records the repairs.
func (r *pendingRequests) legible(text []byte) (msg jsonrpc.Message, mended []byte, err error) {
	if msg, err = decode(text); err == nil {
		return numbered(msg)
	}
	mended, repairs, ok := ijson.Mend(text, ijson.MaxDepth)
	if !ok || len(mended) == len(text) && &mended[0] == &text[0] { // not JSON, or the JSON is not the problem
		return nil, nil, err
	}
	if msg, err = decode(mended); err != nil {
		return nil, nil, err
	}
	msg, again, err := numbered(msg)
	if again != nil {
		mended = again
	}
	if answer, is := msg.(*jsonrpc.Response); is {
		r.mu.Lock()
		defer r.mu.Unlock()
		if f := r.ids[answer.ID]; f != nil {
			f.mended = below(repairs, "/result")
		}
	}
	return msg, mended, err
}

// below returns the repairs inside the value at pointer, with pointers relative to it. They do not share memory with
// the text, because its reader reuses that memory.
func below(of ijson.Repairs, pointer string) ijson.Repairs {
	part := ijson.Repairs{More: of.More}
	for _, repair := range of.List {
		if rest, is := strings.CutPrefix(repair.Pointer, pointer); is && (rest == "" || rest[0] == '/') {
			repair.Pointer, repair.Was = rest, bytes.Clone(repair.Was)
			part.List = append(part.List, repair)
		}
	}
	return part
}

// maxAsked is the number of requests that a server may send over one connection. A server needs none, because this
// client offers no capabilities, and the SDK answers each.
const maxAsked = 10_000

// received handles a message from the server, and returns the message for the SDK, or nil. ok is false if the server
// has sent too many requests.
func (r *pendingRequests) received(msg jsonrpc.Message) (told jsonrpc.Message, ok bool) {
	r.heard.Add(1)
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		return r.answered(msg), true
	case *jsonrpc.Request:
		if msg.IsCall() {
			r.mu.Lock()
			r.asked++
			ok = r.asked <= maxAsked
			r.mu.Unlock()
			return msg, ok
		}
		r.notified(msg)
	}
	return nil, true
}

func (r *pendingRequests) answered(msg *jsonrpc.Response) jsonrpc.Message {
	f := r.of(msg.ID)
	if f != nil && f.isListen() {
		f.end(msg.Error)
	}
	if f == nil || msg.Error != nil || f.isListen() {
		return msg // the SDK drops unknown answers
	}
	if int64(len(msg.Result)) > f.limit {
		f.fail(&TooLargeError{Limit: f.limit})
		return nil
	}
	f.answer = jsontext.Value(msg.Result)
	return &jsonrpc.Response{ID: msg.ID, Result: []byte(f.shorten(f.answer)), Extra: msg.Extra}
}

// missed handles a loss of announcements, with lists also one of changed resources and prompts.
func (r *pendingRequests) missed(lists bool) {
	r.changed()
	if lists && r.listsChanged != nil {
		r.listsChanged()
	}
	r.subscriptions.missed()
}

func (r *pendingRequests) notified(msg *jsonrpc.Request) {
	switch msg.Method {
	case methodChanged:
		r.changed()
	case methodPrompts, methodResources:
		if r.listsChanged != nil {
			r.listsChanged()
		}
	case methodAgreed, methodUpdated:
		r.subscriptions.notified(msg)
	case methodProgress:
		var p struct {
			Token jsontext.Value `json:"progressToken"`
		}
		if json.Unmarshal(msg.Params, &p) != nil {
			return
		}
		var token string
		if json.Unmarshal(p.Token, &token) != nil {
			token = string(p.Token) // some servers send the token back as a number
		}
		r.mu.Lock()
		f := r.tokens[token]
		r.mu.Unlock()
		if f != nil && f.progress != nil {
			f.progress(jsontext.Value(msg.Params))
		}
	}
}
