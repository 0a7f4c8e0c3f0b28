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

// Headers in which a transport tells the door what the library does not: clients cannot set them.
const (
	headerOwn     = "Toolbus-Mcp-" // what all of them begin with
	headerSession = headerOwn + "Session"
	headerID      = headerOwn + "Id"
	headerWeb     = headerOwn + "Web" // it came over HTTP
)

// errLeft ends the calls of a client over standard input and output that has gone: those that it cannot ask for again
// are cancelled.
var errLeft = errors.New("the client has gone")

// Serve serves one client that writes a message in each line, as over standard input and output. It calls as the client
// that the door was made with. Each request with an id is answered with that id, also a line that is not a message or
// is longer than [Options.MaxBody].
//
// When in ends, Serve waits for the calls that run, answers them and returns. It cancels them if out is a pipe, a
// socket or a terminal that no process reads any more, or if ctx ends then. If ctx ends before in does, the calls go
// on: each is answered with the error 503, which has its key. Serve closes neither in nor out. After it returns, its
// goroutine may still read in.
func (d *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	c := newConn(in, out, d.o.MaxBody)
	session, err := d.server.Connect(context.WithoutCancel(ctx), c, nil)
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
	return context.Cause(ctx) // and not that it was closed
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

// typedID is the id of a request of the library, as typed has it.
func typedID(id jsonrpc.ID) string {
	text, err := json.Marshal(id.Raw())
	if err != nil {
		return ""
	}
	return typed(text)
}
