package mcp

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// held is the answer to an HTTP request. The library chooses an event stream before it knows the answer. held holds
// back the headers and the first event of the stream. If the answer is ready before Options.HTTPHold has passed, and
// before any other message, held sends it as application/json: clients limit the size of an event, and proxies may
// hold back a stream. Otherwise it sends the stream, and from then on a comment every Options.HTTPComment: clients and
// proxies end connections on which nothing comes.
type held struct {
	to     http.ResponseWriter
	header http.Header // of the library; only its goroutines use it
	holding

	mu    sync.Mutex
	form  form
	prime []byte // the first event, which has an id and no data

	stop    chan struct{}
	stopped chan struct{}
}

// form is the form of an answer.
type form int

const (
	undecided form = iota // nothing was sent
	stream                // an event stream
	plain                 // anything else: all of it is sent
	refusing              // nothing was sent: the library refuses the request, with a text
)

// holding says how the answer to a request is held.
type holding struct {
	whole bool // the answer may be sent as application/json
	links bool // its protocol has links to resources
	wait  time.Duration
	every time.Duration
	// id and method are those of the request, if it has an id.
	id     jsontext.Value
	method string
}

// hold returns a writer for one answer. Call release when the answer has ended.
func hold(to http.ResponseWriter, a holding) *held {
	h := &held{to: to, header: http.Header{}, holding: a, stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(h.stopped)
		timer := time.NewTimer(a.wait)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				h.comment()
				timer.Reset(a.every)
			case <-h.stop:
				return
			}
		}
	}()
	return h
}

// release ends the comments.
func (h *held) release() {
	close(h.stop)
	<-h.stopped
}

// comment begins the stream if nothing was sent, and sends a comment if there is a stream.
func (h *held) comment() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.form == undecided {
		h.begin(nil)
	}
	if h.form == stream {
		h.send([]byte(": \n\n"))
	}
}

// begin sends the headers of the stream and the event that was held back. comment has no headers of the library.
func (h *held) begin(header http.Header) {
	h.form = stream
	to := h.to.Header()
	maps.Copy(to, header)
	to.Set("Content-Type", "text/event-stream")
	to.Set("Cache-Control", "no-cache, no-transform")
	to.Set("X-Accel-Buffering", "no") // nginx would hold back the events
	h.to.WriteHeader(http.StatusOK)
	if h.prime != nil {
		h.send(h.prime)
	}
}

// send writes and flushes. An error means that the client has gone, which ends the request.
func (h *held) send(p []byte) {
	_, _ = h.to.Write(p)
	_ = http.NewResponseController(h.to).Flush()
}

// Header implements http.ResponseWriter.
func (h *held) Header() http.Header { return h.header }

// WriteHeader implements http.ResponseWriter.
func (h *held) WriteHeader(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.form != undecided: // Write makes an event of the body
	case status == http.StatusOK && h.header.Get("Content-Type") == "text/event-stream":
		h.begin(h.header)
	case status == http.StatusBadRequest && h.id != nil:
		h.form = refusing
	default:
		h.form = plain
		maps.Copy(h.to.Header(), h.header)
		h.to.WriteHeader(status)
	}
}

// refuse sends the text with which the library refuses the request. That of a method that it does not know becomes an
// error of JSON-RPC, as it has no id.
func (h *held) refuse(text []byte) error {
	h.form = plain
	maps.Copy(h.to.Header(), h.header)
	if bytes.HasPrefix(text, unknownMethod) {
		h.to.Header().Set("Content-Type", "application/json")
		text = refusal(h.id, jsonrpc.CodeMethodNotFound, notServed(h.method).Error())
	}
	h.to.WriteHeader(http.StatusBadRequest)
	_, err := h.to.Write(text)
	return err
}

// unknownMethod begins the text of the library about a method that it does not know.
var unknownMethod = []byte("JSON RPC not handled: ")

// The library writes each event at once, and a comment on streams of notifications.
var (
	primeEvent   = []byte("event: prime\n") // the protocol has no such name, and other libraries warn about it
	messageEvent = []byte("event: message\n")
	dataField    = []byte("data: ")
)

// Write implements http.ResponseWriter.
func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	prime, isPrime := bytes.CutPrefix(p, primeEvent)
	message, isMessage := messageOf(p)
	switch {
	case h.form == plain:
		return h.to.Write(p)
	case h.form == refusing:
		return len(p), h.refuse(p)
	case h.form == undecided && isPrime:
		h.prime = bytes.Clone(prime)
	case isPrime:
		h.send(prime)
	case isMessage && isCancelled(message):
		if h.form == undecided {
			h.form = plain
			h.to.WriteHeader(http.StatusAccepted)
		}
	case h.form == undecided && isMessage && h.whole && isAnswer(message):
		h.form = plain
		maps.Copy(h.to.Header(), h.header)
		h.to.Header().Set("Content-Type", "application/json")
		answer := coded(message)
		h.to.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, err := h.to.Write(answer)
		return len(p), err
	case h.form == undecided && !isMessage && h.header.Get("Content-Type") != "text/event-stream":
		h.form = plain
		maps.Copy(h.to.Header(), h.header)
		return h.to.Write(p)
	default:
		if h.form == undecided {
			h.begin(h.header)
		}
		h.send(h.event(p, message, isMessage))
	}
	return len(p), nil
}

// event returns what a stream gets of what the library writes.
func (h *held) event(p []byte, message jsontext.Value, isMessage bool) []byte {
	other := coded(message)
	if len(message) > largeEvent {
		other = shortened(message, h.links)
	}
	switch {
	case isMessage && other != nil && len(other) != len(message):
		head, _, _ := bytes.Cut(p, dataField)
		return bytes.Join([][]byte{head, dataField, other, []byte("\n\n")}, nil)
	case !isMessage && len(p) > 0 && p[0] == '{': // an error for which the library wanted a status of its own
		return bytes.Join([][]byte{messageEvent, dataField, p, []byte("\n\n")}, nil)
	}
	return p
}

// messageOf returns the message of an event.
func messageOf(event []byte) (message jsontext.Value, ok bool) {
	if !bytes.HasPrefix(event, messageEvent) {
		return nil, false
	}
	_, data, ok := bytes.Cut(event, dataField)
	return bytes.TrimSuffix(data, []byte("\n\n")), ok
}

// isAnswer reports whether a message is an answer, and not a notification or a request. The library numbers its
// requests.
func isAnswer(message jsontext.Value) bool {
	rest, hasID := bytes.CutPrefix(message, []byte(`{"jsonrpc":"2.0","id":`))
	if hasID {
		rest = bytes.TrimLeft(rest, "0123456789")
		return !bytes.HasPrefix(rest, []byte(`,"method":`))
	}
	return !bytes.HasPrefix(message, []byte(`{"jsonrpc":"2.0","method":`))
}

// isCancelled reports whether a message is the answer to a request that its client has cancelled, who gets none. An id
// has no such text: its quotes are escaped.
func isCancelled(message jsontext.Value) bool {
	beginning := message[:min(len(message), idBytes)]
	return bytes.Contains(beginning, fmt.Appendf(nil, `,"error":{"code":%d,`, codeCancelled))
}

// Flush implements http.Flusher.
func (h *held) Flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.form == stream || h.form == plain {
		_ = http.NewResponseController(h.to).Flush()
	}
}
