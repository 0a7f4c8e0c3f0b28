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

// The methods that the router looks at.
const (
	methodInitialize = "initialize"
	methodProgress   = "notifications/progress"
	methodChanged    = "notifications/tools/list_changed"
)

// flight is one request that is on its way.
type flight struct {
	limit    int64 // bytes of its answer
	progress func(jsontext.Value)
	// shorten returns what the SDK is told of the answer: it decodes all of what it is told, and what was asked for is
	// in answer.
	shorten func(jsontext.Value) jsontext.Value
	end     context.CancelCauseFunc
	token   string
	id      jsonrpc.ID
	failure atomic.Pointer[error] // why there will be no answer, where more is known of it than the SDK says
	sent    atomic.Bool           // something of it may have reached the server
	answer  jsontext.Value        // set before the SDK learns of the answer
	mended  ijson.Repairs         // of the message that was the answer; set before answer
}

// fail ends the flight, if somebody waits for it.
func (f *flight) fail(err error) {
	f.failure.CompareAndSwap(nil, &err)
	if f.end != nil {
		f.end(err)
	}
}

// bound is how many bytes an answer may have, with what is around it.
func (f *flight) bound() int64 { return max(f.limit, minFrame) }

type flightKey struct{}

// flightOf returns the flight that a message of the SDK belongs to, nil where it is none of ours.
func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// pendingRequests knows which message belongs to which flight of one connection.
type pendingRequests struct {
	changed func()       // the server says that its tools have changed
	heard   atomic.Int64 // messages, so far

	mu     sync.Mutex
	last   int64
	ids    map[jsonrpc.ID]*flight
	tokens map[string]*flight
	asked  int // requests of the server's own, since the connection began
}

func newRouter(changed func()) *pendingRequests {
	return &pendingRequests{changed: changed, ids: map[jsonrpc.ID]*flight{}, tokens: map[string]*flight{}}
}

// begin gives a flight its token, by which progress is told.
func (r *pendingRequests) begin(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	f.token = strconv.FormatInt(r.last, 10)
	r.tokens[f.token] = f
}

// end forgets a flight: what comes for it now comes too late.
func (r *pendingRequests) end(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tokens, f.token)
	delete(r.ids, f.id)
}

// limit is how large the largest answer may be that is waited for.
func (r *pendingRequests) limit() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := int64(minFrame)
	for _, f := range r.tokens {
		most = max(most, f.limit)
	}
	return most
}

// sending returns the flight of a message that is about to be sent, or one that nobody waits for.
func (r *pendingRequests) sending(ctx context.Context, msg jsonrpc.Message) *flight {
	req, ok := msg.(*jsonrpc.Request)
	f := flightOf(ctx)
	if !ok || f == nil || !req.IsCall() {
		return new(flight)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.id = req.ID
	r.ids[req.ID] = f
	return f
}

// of returns the flight with an id, and forgets it: there is one answer, and nothing comes after it.
func (r *pendingRequests) of(id jsonrpc.ID) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.ids[id]
	if f != nil {
		delete(r.ids, id)
		delete(r.tokens, f.token)
	}
	return f
}

// fail ends the flight with the id that a message says it has, and reports whether there is one.
func (r *pendingRequests) fail(id jsontext.Value, err error) bool {
	var plain any
	if json.Unmarshal(id, &plain) != nil {
		return false
	}
	known, err2 := jsonrpc.MakeID(plain)
	if err2 != nil {
		return false
	}
	f := r.of(known)
	if f != nil {
		f.fail(err)
	}
	return f != nil
}

// failAll ends all flights that wait for an answer: one of them was meant.
func (r *pendingRequests) failAll(err error) {
	r.mu.Lock()
	var all []*flight
	for _, f := range r.ids {
		all = append(all, f)
	}
	r.mu.Unlock()
	for _, f := range all {
		f.fail(err)
	}
}

// legible decodes a message. If the SDK cannot decode text, legible decodes what [ijson.Mend] makes of it and returns
// that text too. The flight that such a message answers learns what was replaced in its result.
func (r *pendingRequests) legible(text []byte) (msg jsonrpc.Message, mended []byte, err error) {
	if msg, err = decode(text); err == nil {
		return msg, nil, nil
	}
	mended, repairs, ok := ijson.Mend(text, ijson.MaxDepth)
	if !ok || len(mended) == len(text) && &mended[0] == &text[0] { // it is no message, or no fault of its JSON
		return nil, nil, err
	}
	if msg, err = decode(mended); err != nil {
		return nil, nil, err
	}
	if answer, is := msg.(*jsonrpc.Response); is {
		r.mu.Lock()
		defer r.mu.Unlock()
		if f := r.ids[answer.ID]; f != nil {
			f.mended = below(repairs, "/result")
		}
	}
	return msg, mended, nil
}

// below returns the repairs of the value that pointer names, with pointers that start there. They share no memory with
// the text, of which its reader uses the memory again.
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

// maxAsked is how many requests a server may send: none is of use to it, since nothing is offered to it, and each is
// answered.
const maxAsked = 10_000

// received takes a message, and returns what the SDK is to be told, nil for nothing. ok is false where the server sends
// too many requests of its own.
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
	if f == nil || msg.Error != nil {
		return msg // the SDK drops what it does not wait for
	}
	if int64(len(msg.Result)) > f.limit {
		f.fail(&TooLargeError{Limit: f.limit})
		return nil
	}
	f.answer = jsontext.Value(msg.Result)
	return &jsonrpc.Response{ID: msg.ID, Result: []byte(f.shorten(f.answer)), Extra: msg.Extra}
}

func (r *pendingRequests) notified(msg *jsonrpc.Request) {
	switch msg.Method {
	case methodChanged:
		r.changed()
	case methodProgress:
		var p struct {
			Token jsontext.Value `json:"progressToken"`
		}
		if json.Unmarshal(msg.Params, &p) != nil {
			return
		}
		var token string
		if json.Unmarshal(p.Token, &token) != nil {
			token = string(p.Token) // some servers make a number of a string that looks like one
		}
		r.mu.Lock()
		f := r.tokens[token]
		r.mu.Unlock()
		if f != nil && f.progress != nil {
			f.progress(jsontext.Value(msg.Params))
		}
	}
}
