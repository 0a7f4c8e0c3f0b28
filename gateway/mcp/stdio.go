package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Internal headers with which a transport passes on facts that the library does not. Clients cannot set them.
const (
	headerOwn     = "Toolbus-Mcp-" // prefix of all of them
	headerSession = headerOwn + "Session"
	headerID      = headerOwn + "Id"
	headerWeb     = headerOwn + "Web" // the request came over HTTP
)

// errLeft ends the waits for calls of a client over stdio that has gone. Calls that it cannot ask for again are
// cancelled.
var errLeft = errors.New("the client has gone")

// Serve serves one client over the stdio transport: one message per line. It makes calls with the client that [New]
// got. It answers each request with its id, even if the line is not a valid message or is longer than
// [Options.MaxBody].
//
// When in ends, Serve waits for the running calls, answers them and returns. It cancels them if ctx ends during that
// wait, or if out is a pipe, socket or terminal that no process reads any more. If ctx ends before in does, the calls
// go on, and each is answered with error 503, which contains its key. Serve closes neither in nor out. After it
// returns, its goroutine may still be blocked in a read of in.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	c := newConn(in, out, s.o.MaxBody)
	session, err := s.server.Connect(context.WithoutCancel(ctx), c, nil)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.stop)()
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }() // ends with the session, or with the process
	select {
	case err = <-ended:
	case <-c.late: // the client does not read
		err = errLeft
	}
	if ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx) // instead of the error of the closed session
}

// Connect implements sdk.Transport.
func (c *conn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// typed returns the JSON-RPC id prefixed with its type, or "" if the message has no id. Two spellings of one number,
// such as 1 and 1.0, are the same id.
func typed(id []byte) string {
	var text string
	var n float64
	switch {
	case len(id) == 0 || string(id) == "null":
		return ""
	case json.Unmarshal(id, &text) == nil:
		return string(idString) + text
	case json.Unmarshal(id, &n) == nil && kept(id):
		return string(idNumber) + strconv.FormatInt(int64(n), 10)
	}
	return string(idNumber) + string(id)
}

// typedID is typed for an id of the library.
func typedID(id jsonrpc.ID) string {
	text, err := json.Marshal(id.Raw())
	if err != nil {
		return ""
	}
	return typed(text)
}
