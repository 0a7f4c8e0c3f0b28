package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"

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

// Serve serves one client over a transport, such as standard input and output, until ctx ends or the client leaves.
// It calls as the client that the door was made with.
func (d *Door) Serve(ctx context.Context, t sdk.Transport) error {
	session, err := d.server.Connect(ctx, connected{t}, nil)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	if err := session.Wait(); ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx) // and not that it was closed
}

// connected is a transport whose connections are sessions that number their requests.
type connected struct{ sdk.Transport }

// Connect implements sdk.Transport.
func (t connected) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &numbered{c, rand.Text()}, err
}

// numbered says with each request which one it is.
type numbered struct {
	sdk.Connection
	session string
}

// Read implements sdk.Connection.
func (c *numbered) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		header := http.Header{headerSession: {c.session}}
		if id, err := json.Marshal(req.ID.Raw()); err == nil {
			header.Set(headerID, typed(id))
		}
		req.Extra = &sdk.RequestExtra{Header: header}
	}
	return msg, err
}

// typed is the id of a request, as JSON, with its type in front; "" for what is none.
func typed(id []byte) string {
	var text string
	switch {
	case len(id) == 0 || string(id) == "null":
		return ""
	case json.Unmarshal(id, &text) == nil:
		return string(idString) + text
	}
	return string(idNumber) + string(id)
}
