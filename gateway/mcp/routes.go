package mcp

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// read answers resources/read.
func (p *passing) read(ctx context.Context, uri string) (sdk.Result, error) {
	servers := p.readers(ctx, uri)
	if len(servers) == 1 {
		out, _, err := p.call(ctx, servers[0], map[string]string{"uri": uri})
		return result(out, err)
	}
	var last error
	for _, d := range servers {
		out, refused, err := p.call(ctx, d, map[string]string{"uri": uri})
		if err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if !refused && last == nil { // this server may have the resource
			last = err
		}
	}
	if last != nil {
		return nil, last
	}
	return nil, noResource(uri, p.peer.protocol)
}

// result returns a result as the library expects it: a nil interface with an error.
func result(out *passed, err error) (sdk.Result, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readers returns the servers to ask for a resource, in turn: the one that lists the URI, or those with a template that
// matches, or else all of them. A URI in the result of a tool need not be in any list.
func (p *passing) readers(ctx context.Context, uri string) []*Definition {
	all := p.v.methods[methodRead]
	if len(all) < 2 {
		return all
	}
	if listed, err := p.known(ctx, methodResources); err == nil {
		for _, i := range listed.items {
			if d := p.beside(i.of, methodRead); i.id == uri && d != nil {
				return []*Definition{d}
			}
		}
	}
	templates, err := p.known(ctx, methodTemplates)
	if err != nil {
		return all
	}
	var matching []*Definition
	for _, i := range templates.items {
		if i.of == nil || !matches(i.id, uri) {
			continue
		}
		if d := p.beside(i.of, methodRead); d != nil && !slices.Contains(matching, d) {
			matching = append(matching, d)
		}
	}
	if len(matching) > 0 {
		return matching
	}
	return all
}

// beside returns the function for a method of the same server, or nil.
func (p *passing) beside(of *Definition, method string) *Definition {
	for _, d := range p.v.methods[method] {
		if of != nil && d.Tool == of.Tool {
			return d
		}
	}
	return nil
}

// expression matches an expression of a URI template.
var expression = regexp.MustCompile(`\{[^{}]*\}`)

// matches reports whether a URI may be one of a template. It takes any text for an expression, so it may be true for a
// URI that its server does not have.
func matches(template, uri string) bool {
	parts := expression.Split(template, -1)
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return template == uri
	}
	if len(uri) < len(first)+len(last) || !strings.HasPrefix(uri, first) || !strings.HasSuffix(uri, last) {
		return false
	}
	rest := uri[len(first) : len(uri)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// prompt answers prompts/get.
func (p *passing) prompt(ctx context.Context, params *sdk.GetPromptParams) (sdk.Result, error) {
	d, name, err := p.named(ctx, params.Name, methodPrompt)
	if err != nil {
		return nil, err
	}
	input := map[string]any{"name": name}
	if params.Arguments != nil {
		input["arguments"] = params.Arguments
	}
	out, _, err := p.call(ctx, d, input)
	return result(out, err)
}

// named returns the function for a method of the server that has a prompt, and the name of the prompt there.
func (p *passing) named(ctx context.Context, shown, method string) (*Definition, string, error) {
	all := p.v.methods[method]
	if len(all) == 1 && len(p.v.methods[methodPrompts]) == 1 {
		return all[0], shown, nil
	}
	for _, list := range []func(context.Context, string) (*merged, error){p.known, p.merge} {
		listed, err := list(ctx, methodPrompts)
		if err != nil {
			return nil, "", err
		}
		for _, i := range listed.items {
			if d := p.beside(i.of, method); i.shown == shown && d != nil {
				return d, i.id, nil
			}
		}
	}
	return nil, "", invalid("unknown prompt %.128q; prompts/list has the known ones", shown)
}

// complete answers completion/complete.
func (p *passing) complete(ctx context.Context, params *sdk.CompleteParams) (sdk.Result, error) {
	if params.Ref == nil {
		return nil, invalid("ref is missing")
	}
	ref := *params.Ref
	d, err := p.completing(ctx, &ref)
	if err != nil {
		return nil, err
	}
	if d == nil { // its server completes nothing
		return &passed{
			result: jsontext.Value(`{"completion":{"values":[]}}`), modern: p.peer.protocol >= modern,
		}, nil
	}
	input := map[string]any{"ref": &ref, "argument": params.Argument}
	if params.Context != nil {
		input["context"] = params.Context
	}
	out, _, err := p.call(ctx, d, input)
	return result(out, err)
}

// completing returns the function that completes for a reference, whose name it replaces by that at the server. It
// returns nil if the server has none.
func (p *passing) completing(ctx context.Context, ref *sdk.CompleteReference) (d *Definition, err error) {
	switch all := p.v.methods[methodComplete]; {
	case len(all) == 0:
		return nil, nil
	case len(all) == 1 && len(p.v.methods[methodRead]) < 2 && len(p.v.methods[methodPrompts]) < 2:
		return all[0], nil // the only server
	}
	if ref.Type == "ref/prompt" {
		d, ref.Name, err = p.named(ctx, ref.Name, methodPrompts)
		return p.beside(d, methodComplete), err
	}
	for _, method := range []string{methodTemplates, methodResources} {
		listed, err := p.known(ctx, method)
		if err != nil {
			return nil, err
		}
		for _, i := range listed.items {
			if i.id == ref.URI && i.of != nil {
				return p.beside(i.of, methodComplete), nil
			}
		}
	}
	return nil, noResource(ref.URI, p.peer.protocol)
}
