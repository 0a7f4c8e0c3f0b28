package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// catalogue knows the tools as MCP clients see them. Schemas are asked for once for each build of a tool.
type catalogue struct {
	mu     sync.Mutex
	builds map[build][]*Definition
	last   *view

	changed func(was, is *view) // is told when what is shown changes; was is nil at first
}

// build is a tool as it is, whatever it is called by.
type build struct{ tool, digest string }

// view is all tools at one time.
type view struct {
	sorted []*Definition // by name
	named  map[string]*Definition
	ids    map[string]*Definition // by what doors of builds before names called them, too
	sum    [sha256.Size]byte      // of the entries and the instructions
}

// fetches is how many descriptions are asked for at once.
const fetches = 8

// of returns the tools that there are for a client, whose token the bus checks in doing so.
func (c *catalogue) of(ctx context.Context, client *toolbus.Client) (*view, error) {
	tools, err := client.Tools(ctx)
	if err != nil {
		return nil, err
	}
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
			found[i], err = c.fetch(ctx, client, t.ToolID)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return c.keep(tools, found), nil
}

func (c *catalogue) known(b build) []*Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.builds[b]
}

// fetch asks for the schemas of a tool. None is one that has gone meanwhile.
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

// keep returns a view of the functions of the tools, and removes builds that no tool has any more.
func (c *catalogue) keep(tools []envelope.ToolInfo, found [][]*Definition) *view {
	names := envelope.FunctionNames(tools, SearchTool) // also of those that are not shown: they may be later
	for i, t := range tools {
		found[i] = c.named(build{t.ToolID, t.Digest}, found[i], names)
	}
	v := newView(slices.Concat(found...))
	if was := c.replace(v, len(tools)); was == nil || was.sum != v.sum {
		c.changed(was, v)
	}
	return v
}

// named gives the functions of a build their names, which they seldom have not.
func (c *catalogue) named(b build, all []*Definition, names map[envelope.FunctionID]string) []*Definition {
	fits := func(d *Definition) bool { return d.Name == names[d.id()] }
	if !slices.ContainsFunc(all, func(d *Definition) bool { return !fits(d) }) {
		return all
	}
	is := make([]*Definition, len(all))
	for i, d := range all {
		is[i] = d.named(names[d.id()])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.builds[b] != nil {
		c.builds[b] = is
	}
	return is
}

func newView(all []*Definition) *view {
	slices.SortFunc(all, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	v := &view{sorted: all, named: make(map[string]*Definition, len(all)), ids: map[string]*Definition{}}
	sum := sha256.New()
	for _, d := range all {
		v.named[d.Name] = d
		v.ids[d.Tool], v.ids[d.Tool+"."+d.Fn] = d, d
		_, _ = sum.Write(d.Shown) // a hash takes all
	}
	_, _ = sum.Write([]byte(v.instructions()))
	sum.Sum(v.sum[:0])
	return v
}

// called returns the function with a name in MCP or an id, or nil.
func (v *view) called(name string) *Definition {
	if v == nil {
		return nil
	}
	return cmp.Or(v.named[name], v.ids[name])
}

// replace makes v the newest view, of so many tools.
func (c *catalogue) replace(v *view, tools int) (was *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.builds) > 2*tools+fetches {
		c.builds = nil // asked for again
	}
	was, c.last = c.last, v
	return was
}

// latest returns the newest view that there is, nil for none.
func (c *catalogue) latest() *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// find returns the tool of a name. One that is not known may be new: then all are asked for.
func (c *catalogue) find(ctx context.Context, client *toolbus.Client, name string) (*Definition, error) {
	if d := c.latest().called(name); d != nil {
		return d, nil
	}
	v, err := c.of(ctx, client)
	if err != nil {
		return nil, err
	}
	if d := v.called(name); d != nil {
		return d, nil
	}
	return nil, unknown(name, v)
}

// page returns the tools behind a cursor, and the cursor of the next page; "" ends.
func (v *view) page(cursor string, size int) (page []*Definition, next string, err error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(after) > envelope.MaxFunctionName {
		return nil, "", invalid("the cursor is not one that this door gave: list from the start")
	}
	from, _ := slices.BinarySearchFunc(v.sorted, string(after), func(d *Definition, name string) int {
		return strings.Compare(d.Name, name)
	})
	if from < len(v.sorted) && v.sorted[from].Name == string(after) {
		from++
	}
	page = v.sorted[from:min(from+size, len(v.sorted))]
	if from+size < len(v.sorted) {
		next = base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].Name))
	}
	return page, next, nil
}
