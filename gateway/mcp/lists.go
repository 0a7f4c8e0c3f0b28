package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Limits of the list of one server.
const (
	listTime      = 30 * time.Second // if there are several servers, unless the client names a deadline
	maxListPages  = 100
	maxListItems  = 10_000
	maxListBytes  = 2 << 20
	maxPromptName = 128 // bytes of a name with the prefix of its server
)

// merged is the list of all servers for one method. It is immutable.
type merged struct {
	items []item
	// failed holds a text for each server that did not answer, or whose list was cut.
	failed []string
}

// item is one prompt, resource or template of a server.
type item struct {
	of    *Definition    // the function that lists it
	id    string         // name, URI or URI template, as its server has it
	shown string         // the same as clients have it
	raw   jsontext.Value // entry for clients
}

// listMembers returns the members of a list and of its entries: the list, and what identifies an entry.
func listMembers(method string) (list, id string) {
	switch method {
	case methodPrompts:
		return "prompts", "name"
	case methodTemplates:
		return "resourceTemplates", "uriTemplate"
	}
	return "resources", "uri"
}

// list answers a list. The first page asks the servers, and further pages are of the newest list that the caller got.
func (p *passing) list(ctx context.Context, method, cursor string) (sdk.Result, error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, invalid("the gateway does not know the cursor: list from the start, without a cursor")
	}
	var all *merged
	if cursor != "" {
		all = p.latest(method)
	}
	if all == nil {
		if all, err = p.merge(ctx, method); err != nil {
			return nil, err
		}
	}
	page, next, ok := all.page(string(after), p.o.PageSize)
	if !ok {
		return nil, invalid("the gateway does not know the cursor: list from the start, without a cursor")
	}
	return p.shown(method, page, next, all.failed), nil
}

// shown returns the result with a page.
func (p *passing) shown(method string, page []item, next string, failed []string) sdk.Result {
	name, _ := listMembers(method)
	entries := make([]jsontext.Value, len(page))
	for i, one := range page {
		entries[i] = one.raw
	}
	of := []ijson.Member{member(name, ijson.Array(entries...))}
	if next != "" {
		of = append(of, member("nextCursor", ijson.Quote(next)))
	}
	if p.peer.protocol >= modern {
		of = append(of, member("ttlMs", jsontext.Value(encoded(p.o.Every.Milliseconds()))))
	}
	out := &passed{result: ijson.Object(of...), modern: p.peer.protocol >= modern, cached: true}
	if len(failed) > 0 {
		out.Meta = sdk.Meta{envelope.MetaWarnings: failed}
	}
	return out
}

// page returns the items after the one with an id, and the cursor of the next page.
func (m *merged) page(after string, size int) (page []item, next string, ok bool) {
	start := 0
	if after != "" {
		if start = slices.IndexFunc(m.items, func(i item) bool { return i.shown == after }) + 1; start == 0 {
			return nil, "", false
		}
	}
	end, bytes := start, 0
	for ; end < min(start+size, len(m.items)); end++ {
		if bytes += len(m.items[end].raw); bytes > pageBytes && end > start {
			break
		}
	}
	if end < len(m.items) {
		next = base64.RawURLEncoding.EncodeToString([]byte(m.items[end-1].shown))
	}
	return m.items[start:end], next, true
}

// latest returns the newest list that the caller got, or nil.
func (p *passing) latest(method string) *merged {
	all, _ := p.peer.tools.lists.Load(method)
	newest, _ := all.(*merged)
	return newest
}

// known is latest, or a new list if the caller has not got one.
func (p *passing) known(ctx context.Context, method string) (*merged, error) {
	if all := p.latest(method); all != nil {
		return all, nil
	}
	return p.merge(ctx, method)
}

// merge asks all servers of the view for their lists. A server that does not answer is left out, unless none answers.
func (p *passing) merge(ctx context.Context, method string) (*merged, error) {
	servers := p.v.methods[method]
	lists, failures := make([][]item, len(servers)), make([]error, len(servers))
	var group errgroup.Group
	group.SetLimit(fetches)
	for i, d := range servers {
		group.Go(func() error {
			lists[i], failures[i] = p.items(ctx, d)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	all := &merged{}
	for i, err := range failures {
		if err == nil {
			continue
		}
		if len(servers) == 1 && lists[i] == nil {
			return nil, err
		}
		all.failed = append(all.failed, ijson.Clip(fmt.Sprintf("server %s: %v", servers[i].server.Name, err), 1<<10))
	}
	if len(all.failed) == len(servers) && len(servers) > 0 && len(slices.Concat(lists...)) == 0 {
		return nil, failures[0]
	}
	all.items = unique(method, slices.Concat(lists...))
	if method == methodTemplates {
		own := resultTemplate()
		all.items = slices.Insert(all.items, 0, item{shown: own.URITemplate, raw: jsontext.Value(encoded(own))})
	}
	p.peer.tools.lists.Store(method, all)
	return all, nil
}

// items returns the list of one server, with an error if it is cut. If the server sends no list, it returns nil.
func (p *passing) items(ctx context.Context, d *Definition) (all []item, err error) {
	list, id := listMembers(d.method)
	cursor, bytes := "", 0
	for range maxListPages {
		input := map[string]string{}
		if cursor != "" {
			input["cursor"] = cursor
		}
		res, _, err := p.call(ctx, d, input)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code == jsonrpc.CodeMethodNotFound {
			return []item{}, nil // a server with resources need not have templates
		}
		if err != nil {
			return nil, err
		}
		cursor = ""
		for _, m := range ijson.Members(res.result) {
			switch {
			case m.Is("nextCursor"):
				_ = json.Unmarshal(m.Value, &cursor) // a cursor that is not a string ends the list
			case m.Is(list) && m.Value.Kind() == '[':
				bytes += len(m.Value)
				for _, raw := range ijson.Items(m.Value) {
					if name := valueOf(raw, id); name.Kind() == '"' {
						all = append(all, item{of: d, id: textOf(name), shown: textOf(name), raw: raw})
					}
				}
			}
		}
		if cursor == "" {
			return slices.Concat([]item{}, all), nil
		}
		if len(all) > maxListItems || bytes > maxListBytes {
			break
		}
	}
	return all, fmt.Errorf("its list is cut after %d entries", len(all))
}

// unique returns the items of a list with different identifiers. If several resources have one URI, the first one
// stays. Prompts of several servers with one name get the names of their servers as prefixes.
func unique(method string, all []item) []item {
	type entry struct {
		of *Definition
		id string
	}
	once := map[entry]bool{}
	all = slices.DeleteFunc(all, func(i item) bool { // a server may list one twice
		again := once[entry{i.of, i.id}]
		once[entry{i.of, i.id}] = true
		return again
	})
	count := map[string]int{}
	for _, i := range all {
		count[i.id]++
	}
	used := map[string]bool{}
	kept := all[:0]
	for _, i := range all {
		if method == methodPrompts && count[i.id] > 1 {
			if i.shown = i.of.server.Name + "_" + i.id; len(i.shown) > maxPromptName || count[i.shown] > 0 {
				i.shown = envelope.ShortenName(i.shown, maxPromptName, "_", i.of.Tool, i.id)
			}
			i.raw = renamed(i.raw, i.shown)
		}
		if !used[i.shown] {
			used[i.shown] = true
			kept = append(kept, i)
		}
	}
	return kept
}

// renamed returns an object with another name.
func renamed(object jsontext.Value, name string) jsontext.Value {
	all := ijson.Members(object)
	for n, m := range all {
		if m.Is("name") {
			all[n].Value = ijson.Quote(name)
		}
	}
	return ijson.Object(all...)
}

// listsChanged makes the library notify all clients that the lists of resources and prompts have changed, as the tools
// have, if the view has such lists or had them.
func (s *Server) listsChanged(v, last *view) {
	had := func(method string) bool {
		return len(v.methods[method]) > 0 || last != nil && len(last.methods[method]) > 0
	}
	if had(methodResources) {
		s.server.AddResourceTemplate(resultTemplate(), s.readResult)
	}
	if had(methodPrompts) {
		const name = "changed"
		s.server.AddPrompt(&sdk.Prompt{Name: name}, nil)
		s.server.RemovePrompts(name)
	}
}
