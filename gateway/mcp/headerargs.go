package mcp

import (
	"bytes"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A schema may say that clients repeat an argument in a header, where proxies read it. The library compares the two for
// the tools that it has been given, so it is given those.

// mirrors is the keyword of such an argument.
const mirrors = "x-mcp-header"

// mirror gives the library the tools whose arguments are repeated in headers, and takes back those that are gone.
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

// mirrored reports whether arguments are repeated in headers.
func (of *Definition) mirrored() bool { return bytes.Contains(of.arguments, []byte(`"`+mirrors+`"`)) }

// give gives the library a tool, which the door answers for before it does.
func (d *Server) give(t *sdk.Tool) (err error) {
	defer func() { // it panics where an annotation is none
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	d.server.AddTool(t, nil)
	return nil
}
