package mcp

import (
	"bytes"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A schema may require that clients repeat an argument in a header, for proxies. The library compares header and
// argument for the tools that are registered with it, so the gateway registers such tools.

// mirrors is the schema keyword of such an argument.
const mirrors = "x-mcp-header"

// repeated holds the tools that are registered with the library, because their arguments are repeated in headers.
type repeated struct {
	mu        sync.Mutex
	arguments map[string]string // schema of the arguments, by name
}

// mirror registers the tools of a view whose arguments are repeated in headers with the library. A tool that is not in
// this view stays registered: it may be in the view of another caller.
func (d *Server) mirror(is *view) {
	d.repeated.mu.Lock()
	defer d.repeated.mu.Unlock()
	for _, of := range is.sorted {
		had, known := d.repeated.arguments[of.Name]
		switch {
		case !of.mirrored() && known:
			d.server.RemoveTools(of.Name)
			delete(d.repeated.arguments, of.Name)
		case of.mirrored() && had != string(of.arguments):
			d.repeat(of)
		}
	}
}

// repeat registers one tool. Callers hold d.repeated.mu.
func (d *Server) repeat(of *Definition) {
	if d.repeated.arguments == nil {
		d.repeated.arguments = map[string]string{}
	}
	d.repeated.arguments[of.Name] = string(of.arguments)
	if err := d.give(&sdk.Tool{Name: of.Name, InputSchema: of.arguments}); err != nil {
		d.o.Logger.Warn("headers that repeat arguments of a tool are not looked at", "tool", of.Name, "err", err)
	}
}

// mirrored reports whether arguments of the function are repeated in headers.
func (of *Definition) mirrored() bool { return bytes.Contains(of.arguments, []byte(`"`+mirrors+`"`)) }

// give registers a tool with the library. The gateway answers its calls before the library does.
func (d *Server) give(t *sdk.Tool) (err error) {
	defer func() { // AddTool panics if the keyword is used wrongly
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	d.server.AddTool(t, nil)
	return nil
}
