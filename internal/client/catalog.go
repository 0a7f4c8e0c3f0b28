package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/singleflight"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// catalog caches descriptions, so that a call needs no extra round trip.
type catalog struct {
	asking singleflight.Group // by tool and role
	mu     sync.Mutex
	tools  map[toolIn]*described
	clock  bus.Reading // what the dispatcher said last
}

// toolIn is a tool as a caller in a role sees it, or, if all is true, as one that sees all tools. Role "" means the
// roles of the token.
type toolIn struct {
	tool, role string
	all        bool
}

// as returns the tool of a call as its role sees it.
func (c Call) as() toolIn { return toolIn{tool: c.Tool, role: c.Context.RoleID} }

// key returns a text that is different for each toolIn.
func (t toolIn) key() string { return fmt.Sprintf("%t %q %s", t.all, t.role, t.tool) }

type described struct {
	as      toolIn
	info    envelope.ToolInfo
	fns     map[string]*function
	fetched time.Time
}

type function struct {
	name              string
	pool, digest      string           // of the build that it is of
	class             call.EffectClass // of its tool
	request, response *jsonschema.Schema
}

// freshDescription is how long a description is used; a newer build then shows up.
const freshDescription = 30 * time.Second

// Tools lists the tools of which at least one call could be allowed to the caller.
func (c *Client) Tools(ctx context.Context) ([]envelope.ToolInfo, error) {
	d, err := c.Describe(ctx, envelope.DescribeRequest{})
	return d.Tools, err
}

// Describe returns one description of all tools that q selects, and what the dispatcher that answers says of itself. It
// gives up after five seconds, or when ctx ends.
func (c *Client) Describe(ctx context.Context, q envelope.DescribeRequest) (envelope.DescribeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	all := []envelope.ToolInfo{} // none is a list, too
	for ; ; q.After = all[len(all)-1].ToolID {
		d, err := c.describe(ctx, q)
		if err != nil {
			return envelope.DescribeResponse{}, err
		}
		if all = append(all, d.Tools...); !d.More || len(d.Tools) == 0 {
			d.Tools = all
			return d, nil
		}
	}
}

// Tool describes one tool with its schemas. That there is no such tool, or that no call of it can be allowed, is a
// [Refusal]. Tool always asks, so that it sees another policy at once.
func (c *Client) Tool(ctx context.Context, id string) (envelope.ToolInfo, error) {
	return c.ToolIn(ctx, envelope.DescribeRequest{Tool: id})
}

// ToolIn is Tool for the tool and the role that q names, or for all tools.
func (c *Client) ToolIn(ctx context.Context, q envelope.DescribeRequest) (info envelope.ToolInfo, err error) {
	var t *described
	if utf8.ValidString(q.Tool) { // otherwise it cannot be asked for
		t, err = c.fetchOnce(ctx, toolIn{q.Tool, q.RoleID, q.All}, describeTime)
	}
	switch {
	case err != nil:
		return info, err
	case t == nil:
		return info, &Refusal{c.noTool(ctx, q)}
	}
	return t.info, nil
}

// Times of requests for a description. describeTime bounds the wait of a caller without a timeout of its own. The
// request is sent again after describeAgain, because it or its answer may be lost. A caller that has an old description
// waits for a newer one no longer than refreshTime.
const (
	describeTime  = 5 * time.Second
	describeAgain = 400 * time.Millisecond
	describePause = 20 * time.Millisecond
	refreshTime   = 100 * time.Millisecond
)

// describe asks until ctx ends, which must have a deadline. It returns at once with an error if no dispatcher listens.
func (c *Client) describe(ctx context.Context, q envelope.DescribeRequest) (d envelope.DescribeResponse, err error) {
	tries := timer.Backoff{Pause: describePause, Try: describeAgain}
	err = tries.Until(ctx, func(ctx context.Context) (_ bool, err error) {
		d, err = c.describeOnce(ctx, q)
		return !lost(err), err
	})
	return d, err
}

// lost reports whether err may mean that a request or its answer was lost.
func lost(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrDisconnected)
}

func (c *Client) describeOnce(ctx context.Context, q envelope.DescribeRequest) (envelope.DescribeResponse, error) {
	var d envelope.DescribeResponse
	sent := c.Now()
	if refusal, err := c.inbox.Ask(ctx, subjects.OpDescribe, q, &d); err != nil {
		return d, err
	} else if refusal != nil {
		return d, &Refusal{refusal}
	}
	trip := c.Now().Sub(sent)
	c.catalog.mu.Lock()
	defer c.catalog.mu.Unlock()
	c.catalog.clock = bus.Reading{Local: sent.Add(trip / 2), Bus: time.UnixMilli(d.NowUnixMS)}
	return d, nil
}

// BusTime returns bus time as far as it is known here. After the wall clock was set, or the machine slept,
// it may be ahead: a deadline that is too late does no harm, since the timeout counts, too.
func (c *Client) BusTime() time.Time {
	c.catalog.mu.Lock()
	defer c.catalog.mu.Unlock()
	now := c.Now()
	return c.catalog.clock.At(now).Add(max(0, c.catalog.clock.Stepped(now)))
}

// tool returns the description of a tool, from the cache while it is fresh, and waits for it for
// a while at the most. It is nil if dispatchers have no such tool.
func (c *Client) tool(ctx context.Context, as toolIn, atMost time.Duration) (*described, error) {
	if !utf8.ValidString(as.tool) {
		return nil, nil // and it cannot be asked for
	}
	c.catalog.mu.Lock()
	t := c.catalog.tools[as]
	c.catalog.mu.Unlock()
	if t != nil && time.Since(t.fetched) < freshDescription {
		return t, nil
	}
	if t != nil {
		atMost = min(atMost, refreshTime)
	}
	fresh, err := c.fetchOnce(ctx, as, atMost)
	if err != nil && t != nil {
		return t, nil // the old description is better than no call
	}
	return fresh, err
}

// noTool says that there is no such tool. Which ones there are is asked only to say which one was probably meant.
func (c *Client) noTool(ctx context.Context, q envelope.DescribeRequest) *envelope.Error {
	ctx, cancel := context.WithTimeout(ctx, describeAgain)
	defer cancel()
	id := q.Tool
	q.Tool = ""
	d, _ := c.Describe(ctx, q) // without an answer nothing is suggested
	ids := make([]string, len(d.Tools))
	for i, t := range d.Tools {
		ids[i] = t.ToolID
	}
	return envelope.NoTool(id, ids)
}

// fetchOnce asks for the description of a tool; callers who want the same at the same time share
// one question. There is no such tool when it returns nothing.
func (c *Client) fetchOnce(ctx context.Context, as toolIn, atMost time.Duration) (*described, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	answer := c.catalog.asking.DoChan(as.key(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
		defer cancel()
		return c.fetch(ctx, as)
	})
	select {
	case a := <-answer:
		t, _ := a.Val.(*described)
		return t, a.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", subjects.OpDescribe, ctx.Err())
	}
}

func (c *Client) fetch(ctx context.Context, as toolIn) (*described, error) {
	d, err := c.describe(ctx, envelope.DescribeRequest{Tool: as.tool, RoleID: as.role, All: as.all})
	if err != nil || len(d.Tools) != 1 {
		return nil, err
	}
	t, err := compile(d.Tools[0])
	if err != nil {
		return nil, err
	}
	t.as = as
	c.catalog.mu.Lock()
	defer c.catalog.mu.Unlock()
	if c.catalog.tools == nil || len(c.catalog.tools) > 10_000 {
		c.catalog.tools = map[toolIn]*described{}
	}
	c.catalog.tools[as] = t
	return t, nil
}

func compile(info envelope.ToolInfo) (*described, error) {
	d := &described{info: info, fns: map[string]*function{}, fetched: time.Now()}
	for name, fn := range info.Functions {
		request, err := jsonschema.Compile(info.ToolID+"/"+name+"/request", fn.Request, nil)
		if err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		response, err := jsonschema.Compile(info.ToolID+"/"+name+"/response", fn.Response, nil)
		if err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		d.fns[name] = &function{name: name, pool: info.Pool, digest: info.Digest, class: call.EffectClass(info.Determinism),
			request: request, response: response}
	}
	return d, nil
}

func (t *described) function(fn string) (*function, *envelope.Error) {
	if every := t.fns[envelope.AnyFunction]; every != nil {
		named := *every
		named.name = cmp.Or(fn, envelope.DefaultFunction)
		return &named, nil
	}
	if fn == "" && len(t.fns) == 1 {
		for _, only := range t.fns {
			return only, nil
		}
	}
	if f := t.fns[fn]; f != nil {
		return f, nil
	}
	return nil, envelope.NoFunction(t.info.ToolID, fn, slices.Collect(maps.Keys(t.fns)))
}
