package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Lines is the transport of a client that writes a message in each line, as over standard input. A line that is none,
// or is longer than most bytes, is answered with an error, and the session goes on; 0 is [DefaultBody]. It closes
// neither of the two.
func Lines(in io.Reader, out io.Writer, most int64) sdk.Transport {
	to := &answers{w: out}
	from := &lines{
		r: bufio.NewReaderSize(in, 64<<10), to: to, most: int(cmp.Or(most, DefaultBody)),
	}
	return &sdk.IOTransport{Reader: from, Writer: to, MaxLineLength: -1} // they are bounded here
}

// TurnAway answers the first request of a client over [Lines] with why there is no door for it: few agents show what a
// server says beside its answers. It returns when it has, when the client leaves, or when ctx ends; then whatever reads
// in may still do so.
func TurnAway(ctx context.Context, in io.Reader, out io.Writer, why string) {
	asked := make(chan jsontext.Value, 1)
	go func() {
		defer close(asked)
		from := &lines{r: bufio.NewReader(in), most: DefaultBody}
		for {
			line, err := from.line()
			if id, method := about(line); method != "" && typed(id) != "" {
				asked <- id
				return
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case id, ok := <-asked:
		if ok {
			_, _ = out.Write(refusal(id, codeUnavailable, why)) // whoever has gone misses it
		}
	case <-ctx.Done():
	}
}

// answers is written to by the library and by [lines], a message at a time.
type answers struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (a *answers) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.w.Write(p)
}

// Close implements io.Closer.
func (*answers) Close() error { return nil }

// lines reads what the library takes, which ends the session over any other line.
type lines struct {
	r       *bufio.Reader
	to      io.Writer
	most    int
	batches bool   // the client has begun with a protocol that has them
	rest    []byte // of a line
}

// Close implements io.Closer.
func (*lines) Close() error { return nil }

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		if refused := l.check(line); refused != nil {
			if _, failed := l.to.Write(refused); failed != nil {
				return 0, failed
			}
		} else if len(line) > 0 {
			l.rest = append(line, '\n')
		}
		if err != nil && len(l.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line returns the next line without its end. One that is too long is more than most bytes of it.
func (l *lines) line() (line []byte, err error) {
	for more := true; more; {
		var part []byte
		part, err = l.r.ReadSlice('\n')
		if more = errors.Is(err, bufio.ErrBufferFull); more {
			err = nil
		}
		if len(line) <= l.most {
			line = append(line, part...)
		}
	}
	return bytes.TrimSpace(line), err
}

// check returns the answer to a line that is no message, and nil for one that is, or is empty.
func (l *lines) check(line []byte) []byte {
	if len(line) == 0 {
		return nil
	}
	if len(line) > l.most {
		return refusal(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message is at most %d bytes", l.most))
	}
	if refused := refuted(line); refused != nil {
		return refused
	}
	if line[0] == '[' && !l.batches {
		return refusal(nil, jsonrpc.CodeInvalidRequest, "this protocol has no batches")
	}
	if _, method := about(line); method == "initialize" {
		l.batches = batching(line)
	}
	return nil
}

// batching reports whether a client begins with one of the protocols that have batches.
func batching(initialize []byte) bool {
	var is struct {
		Params struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"params"`
	}
	if json.Unmarshal(initialize, &is) != nil {
		return false
	}
	return is.Params.ProtocolVersion == "2025-03-26" || is.Params.ProtocolVersion == "2024-11-05"
}
