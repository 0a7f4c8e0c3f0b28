package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxSkipped is the number of bytes of a line that are skipped after the line has become too long. If the line is still
// longer, the server is ended.
const maxSkipped = 64 << 20

// lines reads the output of a server, one message per line.
type lines struct {
	from *bufio.Reader
	kept []byte
}

func newLines(r io.Reader) *lines { return &lines{from: bufio.NewReaderSize(r, 64<<10)} }

// tooLong means that a line exceeded the limit and was skipped.
type tooLong struct {
	limit int64
	id    jsontext.Value // id of the message; nil if it has none
}

func (e *tooLong) Error() string { return fmt.Sprintf("a line of more than %d bytes", e.limit) }

// next returns the next line, which is valid until the next call. If a line has more than limit() bytes, next skips it
// and returns a *tooLong; the next call returns the line after it. Any other error is final. limit is a function
// because the limit may change while next waits.
func (l *lines) next(limit func() int64) ([]byte, error) {
	l.kept = l.kept[:0]
	for {
		part, err := l.from.ReadSlice('\n')
		if size := int64(len(l.kept) + len(part)); size > minFrame && size > limit() {
			return nil, l.skip(part, err, limit())
		}
		if err == nil && len(l.kept) == 0 {
			return part, nil
		}
		l.kept = append(l.kept, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.kept) > 0:
			return l.kept, nil
		}
		return l.kept, err
	}
}

// skip reads the rest of a line that is too long, and finds the id of its message.
func (l *lines) skip(part []byte, err error, limit int64) error {
	var f finder
	f.take(l.kept)
	l.kept = nil // free the memory
	for skipped := 0; ; {
		f.take(part)
		skipped += len(part)
		switch {
		case skipped > maxSkipped:
			return fmt.Errorf("a line of more than %d bytes", limit+maxSkipped)
		case err == nil:
			return &tooLong{limit, f.id}
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
		part, err = l.from.ReadSlice('\n')
	}
}

// maxNest is the deepest nesting of a message. Decoders recurse and so use stack for each level.
const maxNest = 1000

// nest tracks the nesting of a JSON text.
type nest struct {
	depth         int
	text, escaped bool
}

// tooDeep reads the next part of a text, and reports whether its nesting exceeds maxNest.
func (n *nest) tooDeep(part []byte) bool {
	for _, c := range part {
		switch {
		case c == '\n': // a string ends at a newline
			n.text, n.escaped = false, false
		case n.text:
			n.text = c != '"' || n.escaped
			n.escaped = c == '\\' && !n.escaped
		case c == '"':
			n.text = true
		case c == '{' || c == '[':
			if n.depth++; n.depth > maxNest {
				return true
			}
		case c == '}' || c == ']':
			n.depth--
		}
	}
	return false
}

var errTooDeep = fmt.Errorf("values nested deeper than %d", maxNest)

// decode decodes one message.
func decode(text []byte) (jsonrpc.Message, error) {
	if new(nest).tooDeep(text) {
		return nil, errTooDeep
	}
	return jsonrpc.DecodeMessage(text)
}

// finder finds the id of a message that is not kept in memory.
type finder struct {
	depth         int
	text, escaped bool
	token         []byte // last token in the outermost object
	name          []byte // name of its member
	id            jsontext.Value
	answer        bool // it has a member result or error
}

// maxToken is longer than any id that this client uses, and than the quoted name id.
const maxToken = 32

func (f *finder) take(part []byte) {
	for _, c := range part {
		f.one(c)
	}
}

func (f *finder) one(c byte) {
	switch {
	case f.text:
		f.keep(c)
		f.text = c != '"' || f.escaped
		f.escaped = c == '\\' && !f.escaped
		return
	case c == '"':
		f.text = true
	case c == '{' || c == '[':
		f.depth++
		return
	case c == '}' || c == ']' || c == ',':
		f.member()
		if c != ',' {
			f.depth--
		}
		return
	case c == ':' && f.depth == 1:
		f.name, f.token = bytes.TrimSpace(f.token), nil
		f.answer = f.answer || string(f.name) == `"result"` || string(f.name) == `"error"`
		return
	}
	f.keep(c)
}

func (f *finder) keep(c byte) {
	if f.depth == 1 && len(f.token) < maxToken {
		f.token = append(f.token, c)
	}
}

// member is called at the end of a member. It stores the value of a member id of the outermost object.
func (f *finder) member() {
	if f.depth != 1 {
		return
	}
	if value := jsontext.Value(bytes.TrimSpace(f.token)); string(f.name) == `"id"` && value.IsValid() {
		f.id = value
	}
	f.name, f.token = nil, nil
}
