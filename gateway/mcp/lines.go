package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// RejectClient answers each request of a client over the stdio transport with an error that has the message why.
// Programs call it if they cannot start, because few MCP clients show the standard error of a server. It returns when
// in or ctx ends. After ctx has ended, its goroutine may still be blocked in a read of in.
func RejectClient(ctx context.Context, in io.Reader, out io.Writer, why string) {
	from := readLines(in, DefaultBody, ctx.Done())
	for {
		select {
		case l := <-from:
			f := &fault{code: codeUnavailable, why: why, ids: l.ids, batch: bytes.HasPrefix(l.text, []byte{'['})}
			if len(l.text) > 0 {
				f.ids = idsIn(l.text)
			}
			if len(f.ids) > 0 {
				_, _ = out.Write(f.lines()) // an error means that the client has gone
			}
			if l.err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// answers writes the messages to a client, one at a time.
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

// line is a line of a client: its text or, if it is too long, the ids of the requests in it. The last line has the
// error that ended the input.
type line struct {
	text []byte
	long bool
	ids  []jsontext.Value
	err  error
}

// empty reports whether the line needs no answer.
func (l *line) empty() bool { return len(l.text) == 0 && !l.long }

// lineBuffer is the size of the read buffer in bytes. Longer lines are read in pieces.
const lineBuffer = 16 << 10

// readLines returns the lines of in, each without its end and at most most bytes long. The goroutine that reads ends
// with in, or with the first line that it reads after stop is closed.
func readLines(in io.Reader, most int64, stop <-chan struct{}) <-chan line {
	to := make(chan line)
	go func() {
		r := bufio.NewReaderSize(in, lineBuffer)
		for {
			l := readLine(r, int(most))
			if l.empty() && l.err == nil {
				continue
			}
			select {
			case to <- l:
			case <-stop:
				return
			}
			if l.err != nil {
				return
			}
		}
	}()
	return to
}

// readLine returns the next line.
func readLine(r *bufio.Reader, most int) (l line) {
	var ids finder
	for more := true; more; {
		var part []byte
		part, l.err = r.ReadSlice('\n')
		if more = errors.Is(l.err, bufio.ErrBufferFull); more {
			l.err = nil
		}
		if !l.long {
			l.text = append(l.text, part...)
			part = l.text
			l.long = len(bytes.TrimSpace(l.text)) > most
		}
		if l.long {
			_, _ = ids.Write(part) // it returns no error
			l.text = nil
		}
	}
	l.text, l.ids = bytes.TrimSpace(l.text), ids.found()
	return l
}

// batch is a batch of requests. Its answers are sent as one message.
type batch struct {
	left    int // requests without an answer
	answers [][]byte
}

// parse returns the messages of a line and, if they are a batch, the batch. wrong is the answer to an invalid line.
func (c *conn) parse(l line) (all []jsonrpc.Message, group *batch, wrong *fault) {
	if l.long {
		why := fmt.Sprintf("a message is at most %d bytes", c.most)
		return nil, nil, &fault{code: jsonrpc.CodeInvalidRequest, why: why, ids: l.ids}
	}
	if wrong := faultOf(l.text); wrong != nil {
		wrong.batch = wrong.batch && c.batches
		return nil, nil, wrong
	}
	texts := []jsontext.Value{l.text}
	if l.text[0] == '[' {
		if !c.batches {
			why := "this protocol has no batches"
			return nil, nil, &fault{code: jsonrpc.CodeInvalidRequest, why: why, ids: idsIn(l.text)}
		}
		texts, group = nil, &batch{}
		_ = json.Unmarshal(l.text, &texts) // never fails: it is an array
	}
	for _, text := range texts {
		msg, err := decode(text)
		if err != nil { // faultOf should have found it
			return nil, nil, &fault{code: jsonrpc.CodeInvalidRequest, why: err.Error(), ids: idsIn(l.text), batch: group != nil}
		}
		req, ok := msg.(*jsonrpc.Request)
		switch {
		case ok && req.Method == "initialize":
			c.batches = batching(text)
		case ok && group != nil && req.IsCall():
			group.left++
		}
		all = append(all, msg)
	}
	return all, group, nil
}

// batching reports whether an initialize request names a protocol with batches.
func batching(initialize []byte) bool {
	var message struct {
		Params struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"params"`
	}
	if json.Unmarshal(initialize, &message) != nil {
		return false
	}
	return message.Params.ProtocolVersion == "2025-03-26" || message.Params.ProtocolVersion == "2024-11-05"
}
