package rpc

import (
	"bytes"
	"crypto/tls"
	"net"
	"strconv"
)

// readSize is the initial size of the read buffer in bytes.
const readSize = 64 << 10

// FilterAction tells a [FilterConn] what to do with a message.
type FilterAction int

// Values of [FilterAction].
const (
	FilterPass     FilterAction = iota // pass it to the client library
	FilterDrop                         // drop it
	FilterTake                         // call the take function
	FilterTakeHead                     // call the take function, without the body
	FilterBorrow                       // as FilterTake, in memory that the receiver frees with [FilteredMessage.Free]
)

// FilteredMessage is a message that a [FilterConn] passes to its take function. Header is the encoded header with its
// first line "NATS/1.0"; it is nil if there is none.
type FilteredMessage struct {
	Subject, Reply string
	Header, Body   []byte
	Size           int  // of header and body on the wire, in bytes
	Trimmed        bool // the body was left out

	spare chan []byte // receives buf when it is free; nil if the message is not borrowed
	buf   []byte
}

// Free releases the memory of Header and Body of a borrowed message for reuse. The caller must not use them afterwards,
// and must not call Free twice. Without Free, the garbage collector frees the memory. For a message that is not
// borrowed, Free does nothing.
func (m FilteredMessage) Free() {
	if m.spare == nil {
		return
	}
	select {
	case m.spare <- m.buf:
	default: // enough are kept
	}
}

// Borrowed messages of large to largest bytes are read into reused buffers, because allocating a buffer costs about as
// much as reading the message. largest is the size of each buffer, which is more than a part of a payload with its
// headers. maxSpare is the number of free buffers that are kept.
const (
	large    = 128 << 10
	largest  = 576 << 10
	maxSpare = 16
)

// FilterConn is a connection to a NATS server that takes some messages out of the byte stream before the client library
// reads them. Read is for one goroutine at a time.
type FilterConn struct {
	net.Conn
	judge func(subject []byte, size int) FilterAction
	take  func(FilteredMessage)

	buf        []byte
	at, end    int // buf[at:end] was read and not returned yet
	pass, skip int // number of the next bytes to return, and to drop
	greeting   bool
	taking     FilteredMessage
	header     int    // bytes of taken that are the header
	taken      []byte // the bytes received so far of the message in taking; nil if there is none
	spare      chan []byte
}

// NewFilterConn returns a connection without the messages for which judge does not return [FilterPass]. It calls judge
// once for each message, with the subject, which judge must not keep, and the size of header and body in bytes. take
// receives the messages that are neither passed nor dropped. It must not block.
func NewFilterConn(
	conn net.Conn, judge func(subject []byte, size int) FilterAction, take func(FilteredMessage),
) *FilterConn {
	return &FilterConn{
		Conn: conn, judge: judge, take: take, buf: make([]byte, readSize), spare: make(chan []byte, maxSpare),
	}
}

// Upgrade starts TLS as a client. It discards what was received unencrypted after the server's INFO line, because an
// attacker may have sent it.
func (c *FilterConn) Upgrade(config *tls.Config) {
	c.Conn = tls.Client(c.Conn, config)
	c.at, c.end = 0, 0
}

// Read implements net.Conn. It returns the INFO line of the server separately from what follows.
func (c *FilterConn) Read(p []byte) (n int, err error) {
	for len(p) > 0 {
		if n = c.sift(p); n > 0 {
			return n, nil
		}
		switch { // buf is empty: read directly into the destination
		case c.taken != nil:
			n, err = c.Conn.Read(c.taken[len(c.taken):cap(c.taken)])
			c.taken = c.taken[:len(c.taken)+n]
			c.give()
		case c.pass > 0:
			n, err = c.Conn.Read(p[:min(len(p), c.pass)])
			c.pass -= n
			return n, err
		default:
			err = c.fill()
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// sift processes the bytes in buf and copies those that pass to p.
func (c *FilterConn) sift(p []byte) (n int) {
	for n < len(p) && c.at < c.end {
		switch {
		case c.taken != nil:
			come := min(c.end-c.at, cap(c.taken)-len(c.taken))
			c.taken = append(c.taken, c.buf[c.at:c.at+come]...)
			c.at += come
			c.give()
		case c.skip > 0:
			left := min(c.skip, c.end-c.at)
			c.skip, c.at = c.skip-left, c.at+left
		case c.pass > 0:
			handed := copy(p[n:], c.buf[c.at:min(c.end, c.at+c.pass)])
			n, c.pass, c.at = n+handed, c.pass-handed, c.at+handed
			if c.greeting && c.pass == 0 {
				c.greeting = false
				return n
			}
		case !c.next():
			return n
		}
	}
	return n
}

// give calls take if the message that is being taken is complete.
func (c *FilterConn) give() {
	if len(c.taken) < cap(c.taken) {
		return
	}
	m := c.taking
	if c.header > 0 {
		m.Header = c.taken[:c.header:c.header]
	}
	if !m.Trimmed {
		m.Body = c.taken[c.header:m.Size:m.Size]
	}
	c.taken = nil
	c.take(m)
}

// fill reads more bytes into buf, which contains no complete line.
func (c *FilterConn) fill() error {
	c.end = copy(c.buf, c.buf[c.at:c.end])
	c.at = 0
	if c.end == len(c.buf) { // a long INFO line
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	n, err := c.Conn.Read(c.buf[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	return err
}

// next decides what to do with the next line and, if that is the head of a message, with the message. It reports
// whether buf contains a complete line.
func (c *FilterConn) next() bool {
	length := bytes.IndexByte(c.buf[c.at:c.end], '\n') + 1
	if length == 0 {
		return false
	}
	line := c.buf[c.at : c.at+length]
	h, message := readHead(line)
	if !message {
		c.pass, c.greeting = length, bytes.HasPrefix(line, []byte("INFO "))
		return true
	}
	whole := h.size + len("\r\n")
	switch fate := c.judge(h.subject, h.size); fate {
	case FilterPass:
		c.pass = length + whole
	case FilterDrop:
		c.skip = length + whole
	default:
		c.at += length
		c.header = h.header
		c.taking = FilteredMessage{Subject: string(h.subject), Reply: string(h.reply), Size: h.size,
			Trimmed: fate == FilterTakeHead}
		if c.taking.Trimmed {
			c.skip, whole = whole-h.header, h.header
		}
		c.taken = c.space(whole, fate)
	}
	return true
}

// space returns an empty slice with capacity size for the message that is being taken.
func (c *FilterConn) space(size int, fate FilterAction) []byte {
	if fate != FilterBorrow || size < large || size > largest {
		return make([]byte, 0, size)
	}
	var buf []byte
	select {
	case buf = <-c.spare:
	default:
		buf = make([]byte, largest)
	}
	c.taking.spare, c.taking.buf = c.spare, buf
	return buf[0:0:size]
}

// protoHead is the parsed protocol line before a message.
type protoHead struct {
	subject, reply []byte
	header, size   int // size in bytes of the header, and of header and body
}

// readHead parses the protocol line before a message: "MSG subject sid [reply] size" or "HMSG subject sid [reply]
// header-size size". message is false for other lines.
func readHead(line []byte) (h protoHead, message bool) {
	var fields [6][]byte
	n := 0
	for field := range bytes.FieldsSeq(line) {
		if n == len(fields) {
			return h, false
		}
		fields[n] = field
		n++
	}
	sizes := 1
	switch {
	case n < 4:
		return h, false
	case string(fields[0]) == "HMSG":
		sizes = 2
	case string(fields[0]) != "MSG":
		return h, false
	}
	if n < 3+sizes || n > 4+sizes {
		return h, false
	}
	if h.subject = fields[1]; n == 4+sizes {
		h.reply = fields[3]
	}
	var err error
	if h.size, err = strconv.Atoi(string(fields[n-1])); err == nil && sizes == 2 {
		h.header, err = strconv.Atoi(string(fields[n-2]))
	}
	return h, err == nil && 0 <= h.header && h.header <= h.size && h.size <= maxSize
}

// maxSize is more bytes than a server sends in one message.
const maxSize = 1 << 30
