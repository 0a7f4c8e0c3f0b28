package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// catalogue caches the definitions of the tools for all callers. It fetches the schemas once for each build of a tool.
type catalogue struct {
	mu     sync.Mutex
	builds map[build][]*Definition
	most   int                    // number of tools of the longest list so far
	seen   map[string]*Definition // by name, from the lists of all callers
	// indexes are those of the views that callers have, by their sums: views of the same tools share one.
	indexes map[[sha256.Size]byte]weak.Pointer[lazyIndex]

	changed func(v *view) // called when the view of a caller changes
}

// viewer is a client with the newest view that it got. Views of callers differ, because the policy decides which tools
// each of them may know.
type viewer struct {
	client *toolbus.Client
	last   atomic.Pointer[view]
	lists  sync.Map // *merged by method: the newest lists of the servers that the caller got
}

// build identifies a build of a tool by tool id and digest.
type build struct{ tool, digest string }

// view holds all tools at one time. It is immutable.
type view struct {
	sorted []*Definition // by name; tools only, as named and ids
	named  map[string]*Definition
	ids    map[string]*Definition // by tool id, and by tool id and function
	// methods are the functions that are methods of MCP servers, by method, and sorted by tool id.
	methods map[string][]*Definition
	sum     [sha256.Size]byte // hash of the entries and the instructions
	// announced is how often servers have announced changes of their resources and prompts, by tool id.
	announced map[string]int64
	// policies are the digests of the policy by which the bus has listed the tools.
	policies envelope.PolicyVersions
	index    *lazyIndex
}

// fetches is the number of concurrent requests for descriptions.
const fetches = 8

// refresh returns the current view of a caller. It asks the bus with the client of the caller, so that dispatchers
// check its token.
func (c *catalogue) refresh(ctx context.Context, w *viewer) (*view, error) {
	listed, err := w.client.Describe(ctx)
	if err != nil {
		return nil, err
	}
	tools := listed.Tools
	found := make([][]*Definition, len(tools))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetches)
	for i, t := range tools {
		if t.Status != "active" && t.Status != "deprecated" {
			continue
		}
		if found[i] = c.known(build{t.ToolID, t.Digest}); found[i] != nil {
			continue
		}
		group.Go(func() (err error) {
			found[i], err = c.fetch(ctx, w.client, t.ToolID)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	v := c.view(tools, found)
	v.policies, v.announced = listed.Policies, map[string]int64{}
	for _, t := range tools {
		if t.ListsChanged > 0 {
			v.announced[t.ToolID] = t.ListsChanged
		}
	}
	if was := w.last.Swap(v); was == nil || was.sum != v.sum {
		c.changed(v)
	}
	return v, nil
}

func (c *catalogue) known(b build) []*Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.builds[b]
}

// fetch returns the definitions of a tool. It returns nil if the tool does not exist any more.
func (c *catalogue) fetch(ctx context.Context, client *toolbus.Client, id string) ([]*Definition, error) {
	t, err := client.Tool(ctx, id)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := define(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.builds == nil {
		c.builds = map[build][]*Definition{}
	}
	c.builds[build{id, t.Digest}] = all
	return all, nil
}

// view returns a view of the functions of the tools, and removes builds that no tool has any more.
func (c *catalogue) view(tools []envelope.ToolInfo, found [][]*Definition) *view {
	names := envelope.FunctionNames(tools, nameSearch, nameCall) // of disabled tools, too: they may be enabled later
	for i, t := range tools {
		found[i] = c.named(build{t.ToolID, t.Digest}, found[i], names)
	}
	v := newView(slices.Concat(found...))
	c.keep(v, len(tools))
	c.share(v)
	return v
}

// named returns the functions of a build with their current names.
func (c *catalogue) named(b build, all []*Definition, names map[envelope.FunctionID]string) []*Definition {
	fits := func(d *Definition) bool { return d.Name == names[d.id()] }
	if !slices.ContainsFunc(all, func(d *Definition) bool { return !fits(d) }) {
		return all
	}
	renamed := make([]*Definition, len(all))
	for i, d := range all {
		renamed[i] = d.named(names[d.id()])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.builds[b] != nil {
		c.builds[b] = renamed
	}
	return renamed
}

func newView(all []*Definition) *view {
	slices.SortFunc(all, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	v := &view{
		named: make(map[string]*Definition, len(all)), ids: map[string]*Definition{},
		methods: map[string][]*Definition{}, index: &lazyIndex{},
	}
	sum := sha256.New()
	for _, d := range all {
		_, _ = sum.Write(d.Shown) // a hash takes all
		if d.method != "" {
			v.methods[d.method] = append(v.methods[d.method], d)
			continue
		}
		v.sorted = append(v.sorted, d)
		v.named[d.Name] = d
		v.ids[d.Tool], v.ids[d.Tool+"."+d.Fn] = d, d
	}
	for _, of := range v.methods {
		slices.SortFunc(of, func(a, b *Definition) int { return strings.Compare(a.Tool, b.Tool) })
	}
	_, _ = sum.Write([]byte(v.instructions()))
	sum.Sum(v.sum[:0])
	return v
}

// called returns the function with an MCP name, or a tool id, or nil.
func (v *view) called(name string) *Definition {
	if v == nil {
		return nil
	}
	return cmp.Or(v.named[name], v.ids[name])
}

// keep remembers the definitions of a view, and forgets all that it has if they are too many. tools is the number of
// tools.
func (c *catalogue) keep(v *view, tools int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most = max(c.most, tools); len(c.builds) > 2*c.most+fetches {
		c.builds, c.seen = nil, nil // fetched again
	}
	if c.seen == nil {
		c.seen = map[string]*Definition{}
	}
	maps.Copy(c.seen, v.named)
	maps.Copy(c.seen, v.ids)
}

// share gives a view the index of an earlier view with the same tools.
func (c *catalogue) share(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.indexes[v.sum].Value(); shared != nil {
		v.index = shared
		return
	}
	maps.DeleteFunc(c.indexes, func(_ [sha256.Size]byte, p weak.Pointer[lazyIndex]) bool { return p.Value() == nil })
	if c.indexes == nil {
		c.indexes = map[[sha256.Size]byte]weak.Pointer[lazyIndex]{}
	}
	c.indexes[v.sum] = weak.Make(v.index)
}

// find returns the function with a name. If it is not in the newest view of the caller, find asks the bus for a new
// view.
func (c *catalogue) find(ctx context.Context, w *viewer, name string) (*Definition, error) {
	if d := w.last.Load().called(name); d != nil {
		return d, nil
	}
	v, err := c.refresh(ctx, w)
	if err != nil {
		return nil, err
	}
	if d := v.called(name); d != nil {
		return d, nil
	}
	return nil, unknown(name, v, false)
}

// called returns the function of a call that the caller has made, although the policy may hide the tool by now. It
// returns nil if no caller has listed it.
func (c *catalogue) called(w *viewer, name string) *Definition {
	if d := w.last.Load().called(name); d != nil {
		return d
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[name]
}

// pageBytes is the size of a page at which it ends, because clients limit the size of an answer.
const pageBytes = 512 << 10

// page returns the tools after a cursor, at most size of them and at most pageBytes of more than one, and the cursor of
// the next page, which is "" after the last one.
func (v *view) page(cursor string, size int, protocol string) (page []*Definition, next string, err error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(after) > envelope.MaxFunctionName {
		return nil, "", invalid("the gateway does not know the cursor: list from the start, without a cursor")
	}
	w, _ := slices.BinarySearchFunc(v.sorted, string(after), func(d *Definition, name string) int {
		return strings.Compare(d.Name, name)
	})
	if w < len(v.sorted) && v.sorted[w].Name == string(after) {
		w++
	}
	end, bytes := w, 0
	for ; end < min(w+size, len(v.sorted)); end++ {
		if bytes += len(v.sorted[end].shownTo(protocol)); bytes > pageBytes && end > w {
			break
		}
	}
	if page = v.sorted[w:end]; end < len(v.sorted) {
		next = base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].Name))
	}
	return page, next, nil
}
