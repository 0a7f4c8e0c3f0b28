package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// events is the body of an event stream (HTML 9.2.6). It reads one event at a time and limits its size. It passes each
// event on in the form that the SDK reads: a line feed ends each line, and each line has a colon. If the SDK cannot
// decode the data, events passes on the data that pendingRequests.legible has mended.
type events struct {
	body   io.Closer
	from   *bufio.Reader
	flight *flight
	router *pendingRequests
	begun  bool            // a line has been read
	cr     bool            // the last line ended with a carriage return, so a line feed belongs to it
	line   []byte          // without its end
	event  []byte          // lines of data, each with its field and a line feed
	lines  int             // of data
	rest   []byte          // other lines of the event
	msg    jsonrpc.Message // that of the event; nil if it has no message
	id     string          // of the last event that has one
	retry  string          // milliseconds that the server asks to wait before the stream is opened again
	ready  []byte          // unread rest of the event
	end    error           // error of Read after ready; nil while the stream continues
}

func newEvents(body io.ReadCloser, f *flight, r *pendingRequests) *events {
	return &events{body: body, from: bufio.NewReader(body), flight: f, router: r}
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.end != nil {
			return 0, e.end
		}
		if err := e.next(); err != nil {
			e.flight.fail(err)
			e.ready, e.end = nil, err
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// message returns the next message of the stream. Events without one are skipped.
func (e *events) message() (jsonrpc.Message, error) {
	for e.end == nil {
		if err := e.next(); err != nil {
			return nil, err
		}
		if e.msg != nil {
			return e.msg, nil
		}
	}
	return nil, e.end
}

// next reads the next event up to the empty line at its end.
func (e *events) next() error {
	e.event, e.lines, e.rest = e.event[:0], 0, e.rest[:0]
	for e.end == nil {
		err := e.read()
		if _, large := errors.AsType[*TooLargeError](err); large {
			return err
		}
		if e.end = err; len(e.line) == 0 {
			break
		}
		e.field()
	}
	return e.pass()
}

// read reads the next line.
func (e *events) read() error {
	e.line = e.line[:0]
	for {
		if _, err := e.from.Peek(1); err != nil {
			return err
		}
		part, _ := e.from.Peek(e.from.Buffered())
		if e.cr && part[0] == '\n' {
			part = part[1:]
			_, _ = e.from.Discard(1)
		}
		e.cr = false
		end := bytes.IndexAny(part, "\r\n")
		if end < 0 {
			end = len(part)
		}
		e.line = append(e.line, part[:end]...)
		if bound := e.flight.bound(); int64(len(e.event)+len(e.rest)+len(e.line)) > bound {
			return &TooLargeError{Limit: bound}
		}
		if end == len(part) {
			_, _ = e.from.Discard(end)
			continue
		}
		e.cr = part[end] == '\r'
		_, _ = e.from.Discard(end + 1)
		return nil
	}
}

// field adds the line to the event. A line without a colon is a field without a value.
func (e *events) field() {
	if !e.begun {
		e.begun, e.line = true, bytes.TrimPrefix(e.line, []byte("\ufeff"))
	}
	name, value, _ := bytes.Cut(e.line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	line := &e.rest
	if string(name) == "data" {
		line = &e.event
		e.lines++
	}
	switch string(name) {
	case "id":
		e.id = string(value)
	case "retry":
		e.retry = string(value)
	}
	*line = append(append(append(append(*line, name...), separator...), value...), '\n')
}

const separator = ": "

// pass makes the event ready. If the stream has ended within the event, pass drops the event, unless its data is whole:
// that may be the result of a tool that has run.
func (e *events) pass() error {
	data := e.data()
	msg, mended, err := e.router.legible(data)
	e.msg = msg
	switch {
	case len(data) == 0:
	case errors.Is(err, errTooDeep):
		return &MalformedError{Reason: err.Error()}
	case err != nil && e.end != nil:
		e.event, e.rest = nil, nil
	case mended != nil:
		e.event = bytes.ReplaceAll(append([]byte("\n"), mended...), []byte("\n"), []byte("\ndata: "))
		e.event = append(e.event[1:], '\n')
	}
	if e.ready = append(e.event, e.rest...); len(e.ready) > 0 {
		e.ready = append(e.ready, '\n')
	}
	return nil
}

// data returns the data of the event.
func (e *events) data() []byte {
	const field = "data" + separator
	if e.lines == 0 {
		return nil
	}
	data := e.event[len(field) : len(e.event)-1]
	if e.lines > 1 {
		data = bytes.ReplaceAll(data, []byte("\n"+field), []byte("\n"))
	}
	return data
}

// Close implements io.Closer.
func (e *events) Close() error { return e.body.Close() }
