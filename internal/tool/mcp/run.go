package mcp

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// op is the operation that a server is asked for.
type op string

const (
	opExecute op = "execute"
	opLookup  op = "lookup"
)

// statement is the answer of a server to a call.
type statement struct {
	result tool.Result
	absent bool // answer to a lookup: the effect is not committed
}

// run asks a server for one operation, and returns when the server has answered or ctx has ended. If the connection was
// lost before the request was sent, it tries another one, once.
func (a *Adapter) run(
	ctx context.Context, m *tool.Manifest, op op, inv tool.Invocation, sink tool.Sink,
) (statement, error) {
	// The executor's context usually ends earlier. This limit ends a run whose context does not.
	ctx, cancel := context.WithTimeout(ctx, m.Limits.Longest())
	defer cancel()
	if ctx.Err() != nil {
		return statement{}, tool.Stopped(ctx, envelope.EffectNone, "")
	}
	inv.Input = m.Coerced(inv.Fn, inv.Input)
	p, e, err := a.pool(m)
	if err != nil {
		return statement{}, &tool.StartError{Err: err}
	}
	request, err := ask(m, e, op, inv)
	asks := asker{caller: inv.MCPInput.Caller, left: time.Duration(p.server.ElicitMS) * time.Millisecond}
	if _, stated := errors.AsType[*tool.Error](err); stated {
		return statement{}, err
	}
	if err != nil {
		return statement{}, &tool.StartError{Err: err}
	}
	for again := false; ; again = true {
		said, err := p.ask(ctx, m, e, op, request, newRelay(m, sink, &asks))
		if _, died := errors.AsType[*unheardError](err); died && !again {
			continue
		}
		if question, asks := errors.AsType[*tool.InputError](err); asks {
			askedBy(inv, question)
		}
		said.result.Warnings = asks.warn(said.result.Warnings)
		return said, err
	}
}

// ask makes one request over one connection.
func (p *pool) ask(
	ctx context.Context, m *tool.Manifest, e Endpoint, op op, request client.Request, r *progressQueue,
) (statement, error) {
	l, err := p.take(ctx)
	if err != nil {
		return statement{}, unsent(ctx, err)
	}
	defer p.give(l)
	if err := l.verify(ctx, e); err != nil {
		if ctx.Err() != nil {
			p.probe(ctx, l)
		}
		if changed, ok := errors.AsType[*changedError](err); ok {
			if p.outdated(l) {
				return statement{}, &unheardError{&tool.StartError{Err: err}}
			}
			p.withhold(m.ToolID, changed)
		}
		return statement{}, l.unheard(unsent(ctx, err))
	}
	if due, ok := ctx.Deadline(); ok { // the time that is left after the server was started
		request.Meta[envelope.MetaDeadlineMS] = max(1, time.Until(due).Milliseconds())
	}
	if request.Method == client.ResourcesSubscribe {
		said, err := p.listen(ctx, l, request, r)
		return said, l.unheard(asMethod(err))
	}
	answer, err := r.call(ctx, l.conn, request)
	if err != nil {
		if ctx.Err() != nil {
			p.probe(ctx, l)
		}
		err = r.failure(ctx, err)
		if e.Methods {
			err = asMethod(err)
		}
		return about(err), l.unheard(err)
	}
	l.served.Store(true)
	said, err := judge(m, e, op, answer, r.passed())
	said.result.Server = l.version
	return said, err
}

// unheardError means that a connection was lost before a request was sent over it. Another connection may work.
type unheardError struct{ *tool.StartError }

// Unwrap returns the StartError.
func (e *unheardError) Unwrap() error { return e.StartError }

// unheard wraps err in an unheardError if nothing was sent and the connection is lost.
func (l *serverConn) unheard(err error) error {
	unsent, ok := errors.AsType[*tool.StartError](err)
	if !ok {
		return err
	}
	if l.conn.Usable() {
		return err
	}
	return &unheardError{unsent}
}

// unsent returns the error of a call of which nothing was sent.
func unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return tool.Stopped(ctx, envelope.EffectNone, "")
	}
	if _, changed := errors.AsType[*changedError](err); changed {
		return err
	}
	return &tool.StartError{Err: err}
}

// ask returns the request for an operation.
func ask(m *tool.Manifest, e Endpoint, op op, inv tool.Invocation) (client.Request, error) {
	r := client.Request{
		Tool: e.Tool, Method: e.method(inv.Fn), Arguments: inv.Input, Limit: frame(m.Limits.OutputBytes),
		Meta: meta(e, op, inv),
	}
	name := e.KeyArgument
	if op == opLookup {
		r.Tool, r.Arguments, name = e.Lookup.Tool, jsontext.Value("{}"), e.Lookup.Argument
	}
	if r.Arguments.Kind() != '{' {
		return r, errors.New("the input is no object, so it cannot be the arguments of an MCP tool")
	}
	if op == opExecute {
		input, err := inputOf(inv.MCPInput)
		if err != nil {
			return r, err
		}
		r.Input = input
	}
	if name == "" {
		return r, nil
	}
	var arguments map[string]jsontext.Value
	if err := json.Unmarshal(r.Arguments, &arguments); err != nil {
		return r, err
	}
	key, err := json.Marshal(inv.IdempotencyKey)
	if err != nil {
		return r, err
	}
	arguments[name] = key
	r.Arguments, err = json.Marshal(arguments, json.Deterministic(true))
	return r, err
}

// frame returns the limit of an answer, in bytes, for a limit of the output: servers repeat structured content as text,
// in which every quote takes two bytes.
func frame(output int64) int64 { return 3*output + 64<<10 }

// meta returns the _meta of a request: that of the client, and the members of Toolbus.
func meta(e Endpoint, op op, inv tool.Invocation) map[string]any {
	of := map[string]any{}
	for _, m := range ijson.Members(inv.MCPMeta) { // any client of the bus may have sent it
		if name := string(m.Plain()); !envelope.IsReservedMeta(name) {
			of[name] = m.Value
		}
	}
	maps.Copy(of, map[string]any{
		envelope.MetaCallID: inv.CallID, envelope.MetaAttempt: inv.Attempt, envelope.MetaIdempotencyKey: inv.IdempotencyKey,
		envelope.MetaToolVersion: inv.ToolVersion, envelope.MetaDigest: inv.Digest,
		envelope.MetaTraceparent: inv.Traceparent,
	})
	if e.Invocation {
		told := invocation{
			Op: op, CallID: inv.CallID, ToolID: inv.ToolID, ToolVersion: inv.ToolVersion, Digest: inv.Digest, Fn: inv.Fn,
			Context: inv.Context, IdempotencyKey: inv.IdempotencyKey, Attempt: inv.Attempt,
			Fence: strconv.FormatUint(inv.Fence, 10), DeadlineUnixMS: inv.Deadline.UnixMilli(), DryRun: inv.DryRun,
			Traceparent: inv.Traceparent,
		}
		if op == opLookup {
			told.Input = inv.Input
		}
		of[envelope.MetaInvocation] = told
	}
	return of
}

// invocation is the request of the process protocol, for servers that want it (Endpoint.Invocation). Input is set only
// for lookups: the input of an execution is in the arguments.
type invocation struct {
	Op             op             `json:"op"`
	CallID         string         `json:"call_id"`
	ToolID         string         `json:"tool_id"`
	ToolVersion    string         `json:"tool_version"`
	Digest         string         `json:"digest"`
	Fn             string         `json:"fn"`
	Input          jsontext.Value `json:"input,omitempty"`
	Context        jsontext.Value `json:"context,omitempty"`
	IdempotencyKey string         `json:"idempotency_key"`
	Attempt        int            `json:"attempt"`
	Fence          string         `json:"fence"` // decimal, because a JSON number may not hold it exactly
	DeadlineUnixMS int64          `json:"deadline_unix_ms"`
	DryRun         bool           `json:"dry_run"`
	Traceparent    string         `json:"traceparent"`
}
