package catalogue

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
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Catalogue asks dispatchers for descriptions, and keeps those of single tools. Make one with [New]. Its methods are
// safe for concurrent use.
type Catalogue struct {
	inbox *rpc.Inbox
	now   func() time.Time // local clock

	asking singleflight.Group // by key
	mu     sync.Mutex
	tools  map[Key]*Tool
	clock  bus.Reading // what the dispatcher said last
}

// New returns an empty catalogue of an actor. Until a dispatcher has answered, bus time is the local time of now.
func New(inbox *rpc.Inbox, now func() time.Time) *Catalogue {
	return &Catalogue{inbox: inbox, now: now, clock: bus.Reading{Local: now(), Bus: now()}}
}

// Key is a tool as a caller in a role sees it, or, if All is true, as one that sees all tools. RoleID "" means the
// roles of the token.
type Key struct {
	Tool, RoleID string
	All          bool
}

// String returns a text that is different for each Key.
func (k Key) String() string { return fmt.Sprintf("%t %q %s", k.All, k.RoleID, k.Tool) }

// Times of requests for a description. MaxWait bounds the wait of a caller without a timeout of its own. The request is
// sent again after tryTime, because it or its answer may be lost. A caller that has an old description waits for a
// newer one no longer than refreshTime, and later callers get the answer that comes within sharedTime.
const (
	MaxWait     = 5 * time.Second
	tryTime     = 400 * time.Millisecond
	tryPause    = 20 * time.Millisecond
	refreshTime = 100 * time.Millisecond
	sharedTime  = 2 * time.Second
)

// freshTime is how long a description is used; a newer build then shows up.
const freshTime = 30 * time.Second

// maxTools is the most descriptions that are kept.
const maxTools = 10_000

// Tools lists the tools of which at least one call could be allowed to the caller.
func (c *Catalogue) Tools(ctx context.Context) ([]envelope.ToolInfo, error) {
	d, err := c.Describe(ctx, envelope.DescribeRequest{})
	return d.Tools, err
}

// Describe returns one description of all tools that q selects, and what the dispatcher that answers says of itself. It
// gives up after [MaxWait], or when ctx ends.
func (c *Catalogue) Describe(ctx context.Context, q envelope.DescribeRequest) (envelope.DescribeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
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

// Tool describes one tool with its schemas, see [Catalogue.ToolIn].
func (c *Catalogue) Tool(ctx context.Context, id string) (envelope.ToolInfo, error) {
	return c.ToolIn(ctx, envelope.DescribeRequest{Tool: id})
}

// ToolIn describes the tool that q names, to the role that q names, or among all tools. That there is no such tool, or
// that no call of it can be allowed, is an [operation.Refusal]. ToolIn always asks, so that it sees another policy at
// once.
func (c *Catalogue) ToolIn(ctx context.Context, q envelope.DescribeRequest) (info envelope.ToolInfo, err error) {
	t, err := c.Fetch(ctx, Key{q.Tool, q.RoleID, q.All}, MaxWait)
	switch {
	case err != nil:
		return info, err
	case t == nil:
		return info, &operation.Refusal{Reason: c.noTool(ctx, q)}
	}
	return t.Info, nil
}

// noTool returns the refusal for an unknown tool. It asks for the list of tools only to suggest a similar name.
func (c *Catalogue) noTool(ctx context.Context, q envelope.DescribeRequest) *envelope.Error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
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

// Await returns the description of a tool as [Catalogue.Find] does. It asks again until that time if it gets no answer,
// because dispatchers may be starting. If a last question had less time than an answer may take, the error is that of
// the question before it.
func (c *Catalogue) Await(ctx context.Context, key Key, until time.Time) (*Tool, error) {
	for before := error(nil); ; {
		asked := time.Now()
		t, err := c.Find(ctx, key, time.Until(until))
		if before != nil && errors.Is(err, context.DeadlineExceeded) && time.Since(asked) < tryTime {
			err = before
		}
		before = err
		pause := tryPause
		if refused, ok := errors.AsType[*operation.Refusal](err); ok {
			pause = max(pause, time.Duration(refused.Reason.Details.RetryAfterMS)*time.Millisecond)
		}
		if !c.IsSilent(err) || !timer.Sleep(ctx, min(pause, time.Until(until))) || time.Until(until) <= 0 {
			return t, err
		}
	}
}

// Find returns the description of a tool, from the cache while it is fresh, and waits for it for a while at the most.
// It is nil if dispatchers have no such tool.
func (c *Catalogue) Find(ctx context.Context, key Key, atMost time.Duration) (*Tool, error) {
	c.mu.Lock()
	t := c.tools[key]
	c.mu.Unlock()
	if t != nil && time.Since(t.Fetched) < freshTime {
		return t, nil
	}
	if t != nil {
		atMost = min(atMost, refreshTime)
	}
	fresh, err := c.Fetch(ctx, key, atMost)
	if err != nil && t != nil {
		return t, nil // the old description is better than no call
	}
	return fresh, err
}

// Newer returns the description of another build of the tool than t, if there is one now. It waits for as long as for a
// first one: what t refuses, another build may take.
func (c *Catalogue) Newer(ctx context.Context, t *Tool, until time.Time) *Tool {
	fresh, err := c.Fetch(ctx, t.key, min(MaxWait, time.Until(until)))
	if err != nil || fresh == nil || fresh.Info.Digest == t.Info.Digest {
		return nil
	}
	return fresh
}

// Fetch asks for the description of a tool; callers who want the same at the same time share one question. It is nil if
// dispatchers have no such tool.
func (c *Catalogue) Fetch(ctx context.Context, key Key, atMost time.Duration) (*Tool, error) {
	if !utf8.ValidString(key.Tool) {
		return nil, nil // and it cannot be asked for
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	answer := c.asking.DoChan(key.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(atMost, sharedTime))
		defer cancel()
		return c.fetch(ctx, key)
	})
	select {
	case a := <-answer:
		t, _ := a.Val.(*Tool)
		return t, a.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", subjects.OpDescribe, ctx.Err())
	}
}

func (c *Catalogue) fetch(ctx context.Context, key Key) (*Tool, error) {
	d, err := c.describe(ctx, envelope.DescribeRequest{Tool: key.Tool, RoleID: key.RoleID, All: key.All})
	if err != nil || len(d.Tools) != 1 {
		return nil, err
	}
	t, err := compile(key, d.Tools[0])
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tools == nil || len(c.tools) > maxTools {
		c.tools = map[Key]*Tool{}
	}
	c.tools[key] = t
	return t, nil
}

// describe asks until ctx ends, which must have a deadline. It returns at once with an error if no dispatcher listens.
func (c *Catalogue) describe(
	ctx context.Context, q envelope.DescribeRequest,
) (d envelope.DescribeResponse, err error) {
	tries := timer.Backoff{Pause: tryPause, Try: tryTime}
	err = tries.Until(ctx, func(ctx context.Context) (_ bool, err error) {
		d, err = c.describeOnce(ctx, q)
		return !isLost(err), err
	})
	return d, err
}

func (c *Catalogue) describeOnce(ctx context.Context, q envelope.DescribeRequest) (envelope.DescribeResponse, error) {
	sent := c.now()
	d, refusal, err := operation.Describe.Ask(ctx, c.inbox, q)
	if err != nil {
		return d, err
	} else if refusal != nil {
		return d, &operation.Refusal{Reason: refusal}
	}
	trip := c.now().Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = bus.Reading{Local: sent.Add(trip / 2), Bus: time.UnixMilli(d.NowUnixMS)}
	return d, nil
}

// BusTime returns bus time as far as it is known here. After the wall clock was set, or the machine slept, it may be
// ahead: a deadline that is too late does no harm, since the timeout counts, too.
func (c *Catalogue) BusTime() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	return c.clock.At(now).Add(max(0, c.clock.Stepped(now)))
}

// IsSilent reports whether err is no lasting answer of the bus: none came, the dispatcher is not ready yet, or the
// token has expired and will be renewed. The server allows nothing to a connection with an expired token. The renewal
// connects again.
func (c *Catalogue) IsSilent(err error) bool {
	refused, ok := errors.AsType[*operation.Refusal](err)
	return ok && refused.Reason.Code.AutoRetry() || isLost(err) || errors.Is(err, rpc.ErrNoDispatcher) ||
		errors.Is(err, nats.ErrPermissionViolation) && c.inbox.Token != nil &&
			auth.Entitled(c.inbox.Token(), subjects.Service(subjects.OpDescribe, c.inbox.Tenant, c.inbox.Actor))
}

// isLost reports whether err may mean that a request or its answer was lost.
func isLost(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrDisconnected)
}

// Tool is the description of one build of a tool.
type Tool struct {
	Info      envelope.ToolInfo
	Fetched   time.Time
	key       Key
	functions map[string]*Function
}

// Function is one function of a [Tool].
type Function struct {
	Name     string
	Digest   string           // of the build that it is of
	Class    call.EffectClass // of its tool
	Response *jsonschema.Schema
}

// compile compiles the schemas of a tool.
func compile(key Key, info envelope.ToolInfo) (*Tool, error) {
	t := &Tool{Info: info, Fetched: time.Now(), key: key, functions: map[string]*Function{}}
	for name, fn := range info.Functions {
		if _, err := jsonschema.Compile(info.ToolID+"/"+name+"/request", fn.Request, nil); err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		response, err := jsonschema.Compile(info.ToolID+"/"+name+"/response", fn.Response, nil)
		if err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		t.functions[name] = &Function{
			Name: name, Digest: info.Digest, Class: call.EffectClass(info.Determinism), Response: response,
		}
	}
	return t, nil
}

// Function returns the function that a call names, or the only one if the call names none. The refusal says which
// functions the tool has.
func (t *Tool) Function(name string) (*Function, *envelope.Error) {
	if every := t.functions[envelope.AnyFunction]; every != nil {
		named := *every
		named.Name = cmp.Or(name, envelope.DefaultFunction)
		return &named, nil
	}
	if name == "" && len(t.functions) == 1 {
		for _, only := range t.functions {
			return only, nil
		}
	}
	if f := t.functions[name]; f != nil {
		return f, nil
	}
	return nil, envelope.NoFunction(t.Info.ToolID, name, slices.Collect(maps.Keys(t.functions)))
}
