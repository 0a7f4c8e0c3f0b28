package mcp

import (
	"bytes"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A schema may require that clients repeat an argument in a header, for proxies. The library compares header and
// argument for the tools that are registered with it, so the gateway registers such tools.

// mirrors is the schema keyword of such an argument.
const mirrors = "x-mcp-header"

// mirror registers the tools whose arguments are repeated in headers with the library, and removes those that are gone.
func (d *Server) mirror(was, is *view) {
	if was != nil {
		for _, of := range was.sorted {
			if of.mirrored() && is.named[of.Name] == nil {
				d.server.RemoveTools(of.Name)
			}
		}
	}
	for _, of := range is.sorted {
		if !of.mirrored() {
			continue
		}
		if err := d.give(&sdk.Tool{Name: of.Name, InputSchema: of.arguments}); err != nil {
			d.o.Logger.Warn(
				"headers that repeat arguments of a tool are not looked at",
				"tool",
				of.Name,
				"err",
				err,
			)
		}
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
