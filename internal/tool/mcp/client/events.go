package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// events is the body of an event stream (SSE). It reads one event at a time and limits its size. If the SDK cannot
// decode the data of an event, events passes on the data that pendingRequests.legible has mended.
type events struct {
	body   io.Closer
	from   *bufio.Reader
	flight *flight
	router *pendingRequests
	event  []byte
	ready  []byte // unread rest of the event
	end    error  // error of Read after ready; nil while the stream continues
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

// next reads the next event up to the empty line at its end.
func (e *events) next() error {
	e.event = e.event[:0]
	for line := 0; ; {
		part, err := e.from.ReadSlice('\n')
		e.event = append(e.event, part...)
		if bound := e.flight.bound(); int64(len(e.event)) > bound {
			return &TooLargeError{Limit: bound}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if e.end = err; err != nil || len(bytes.TrimRight(e.event[line:], "\r\n")) == 0 {
			break
		}
		line = len(e.event)
	}
	e.ready = e.event
	data, rest := split(e.event)
	if len(data) == 0 {
		return nil
	}
	_, mended, err := e.router.legible(data)
	switch {
	case errors.Is(err, errTooDeep):
		return &MalformedError{Reason: err.Error()}
	case err == nil && mended != nil:
		e.ready = slices.Concat(rest, []byte("data: "), mended, []byte("\n\n"))
	}
	return nil
}

// split returns the data of an event, and its other lines without the empty line at the end.
func split(event []byte) (data, rest []byte) {
	var lines [][]byte
	for line := range bytes.Lines(event) {
		text := bytes.TrimRight(line, "\r\n")
		if value, is := bytes.CutPrefix(text, []byte("data:")); is {
			lines = append(lines, bytes.TrimPrefix(value, []byte(" ")))
		} else if len(text) > 0 {
			rest = append(append(rest, text...), '\n')
		}
	}
	if len(lines) == 1 {
		return lines[0], rest
	}
	return bytes.Join(lines, []byte("\n")), rest
}

// Close implements io.Closer.
func (e *events) Close() error { return e.body.Close() }
