package mcp

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A schema may require that clients repeat an argument in a header, for proxies. The library compares header and
// argument for the tools that are registered with it, so the gateway registers such tools.

// mirrors is the schema keyword of such an argument.
const mirrors = "x-mcp-header"

// repeated holds the tools that are registered with the library, because their arguments are repeated in headers.
type repeated struct {
	server *sdk.Server
	log    *slog.Logger

	mu        sync.Mutex
	arguments map[string]string // schema of the arguments, by name
}

// mirror registers the tools of a view whose arguments are repeated in headers with the library. A tool that is not in
// this view stays registered: it may be in the view of another caller.
func (r *repeated) mirror(v *view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range v.sorted {
		had, known := r.arguments[d.Name]
		switch {
		case !d.mirrored() && known:
			r.server.RemoveTools(d.Name)
			delete(r.arguments, d.Name)
		case d.mirrored() && had != string(d.arguments):
			r.register(d)
		}
	}
}

// register registers one tool. Callers hold r.mu.
func (r *repeated) register(d *Definition) {
	if r.arguments == nil {
		r.arguments = map[string]string{}
	}
	r.arguments[d.Name] = string(d.arguments)
	if err := r.addTool(&sdk.Tool{Name: d.Name, InputSchema: d.arguments}); err != nil {
		r.log.Warn("headers that repeat arguments of a tool are not looked at", "tool", d.Name, "err", err)
	}
}

// mirrored reports whether arguments of the function are repeated in headers.
func (d *Definition) mirrored() bool { return bytes.Contains(d.arguments, []byte(`"`+mirrors+`"`)) }

// addTool registers a tool with the library. The gateway answers its calls before the library does.
func (r *repeated) addTool(t *sdk.Tool) (err error) {
	defer func() { // AddTool panics if the keyword is used wrongly
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	r.server.AddTool(t, nil)
	return nil
}
