package rpc

import (
	"bytes"
	"crypto/tls"
	"net"
	"strconv"
)

// readSize is how much is read at once.
const readSize = 64 << 10

// FilterAction is what becomes of a message.
type FilterAction int

// Values of [FilterAction].
const (
	FilterPass     FilterAction = iota // pass it to the client library
	FilterDrop                         // drop it
	FilterTake                         // call the take function
	FilterTakeHead                     // call the take function, without the body
	FilterBorrow                       // as FilterTake, in memory that the receiver frees with [FilteredMessage.Free]
)

// FilteredMessage is one that was taken. Header is as it was sent, with the line that begins it; nil is none.
type FilteredMessage struct {
	Subject, Reply string
	Header, Body   []byte
	Size           int  // of both, as they were sent
	Trimmed        bool // the body was left out

	spare chan []byte // where its buffer goes; nil if it is in none
	buf   []byte
}

// Free lets the memory of Header and Body be used for another message. Without it the memory becomes garbage. Nothing
// may refer to it any more. For a message that is not borrowed it does nothing.
func (m FilteredMessage) Free() {
	if m.spare == nil {
		return
	}
	select {
	case m.spare <- m.buf:
	default: // enough are kept
	}
}

// A large message that is borrowed is read into a buffer that is used again: to make one for each message would cost
// about as much as to read it. largest is the size of the buffers, above that of a part of a payload with its headers;
// maxSpare is how many are kept.
const (
	large    = 128 << 10
	largest  = 576 << 10
	maxSpare = 16
)

// FilterConn is a connection to a server as the client library reads it.
type FilterConn struct {
	net.Conn
	judge func(subject []byte, size int) FilterAction
	take  func(FilteredMessage)

	buf        []byte
	at, end    int // what was read and not handed on yet
	pass, skip int // how much of it, and of what follows, is to be handed on, or left out
	greeting   bool
	taking     FilteredMessage
	header     int    // how much of taken is that
	taken      []byte // as far as it has come; nil if nothing is being taken
	spare      chan []byte
}

// NewFilterConn returns the connection without the messages that judge does not let pass. It is asked once for each,
// with the subject, which it must not keep, and the size of headers and body in bytes. take must not wait.
func NewFilterConn(
	conn net.Conn, judge func(subject []byte, size int) FilterAction, take func(FilteredMessage),
) *FilterConn {
	return &FilterConn{
		Conn: conn, judge: judge, take: take, buf: make([]byte, readSize), spare: make(chan []byte, maxSpare),
	}
}

// Upgrade has all that follows be encrypted. What came in the clear behind the greeting of the server is forgotten:
// anybody may have sent it.
func (c *FilterConn) Upgrade(config *tls.Config) {
	c.Conn = tls.Client(c.Conn, config)
	c.at, c.end = 0, 0
}

// Read implements net.Conn. The greeting of the server comes alone.
func (c *FilterConn) Read(p []byte) (n int, err error) {
	for len(p) > 0 {
		if n = c.sift(p); n > 0 {
			return n, nil
		}
		switch { // nothing is left; what is large need not be copied twice
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

// sift hands on what is to be handed on of what was read.
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

// give gives what is being taken, if all of it is here.
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

// fill reads more behind what is there, of which no whole line is.
func (c *FilterConn) fill() error {
	c.end = copy(c.buf, c.buf[c.at:c.end])
	c.at = 0
	if c.end == len(c.buf) { // a long greeting
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	n, err := c.Conn.Read(c.buf[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	return err
}

// next decides about the next line, and the message that it is the head of. It reports whether the line is there.
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

// space returns memory for the message that is being taken.
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

// protoHead is the line before a message.
type protoHead struct {
	subject, reply []byte
	header, size   int // of these bytes the first are headers
}

// readHead reads the line before a message; other lines are none. It is MSG, the subject, the number of the
// subscription, the reply subject if there is one, and the size; or HMSG, and before the size that of the headers.
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

// maxSize is more than any server sends in one message.
const maxSize = 1 << 30
