package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Word is the argument that makes the tool command of chaos run the MCP server.
const Word = "mcp"

// Specs returns the tools.
func Specs() []effects.Spec {
	return []effects.Spec{
		{ID: "chaos.post", Class: call.Idempotent, Streaming: true},
		{ID: "chaos.order", Class: call.SideEffectful},
		{ID: "chaos.book", Class: call.SideEffectful, Lookup: true},
	}
}

// lookupTool is the tool that returns the effect of a key from the ledger.
const lookupTool = "lookup"

const manifest = `tool_id: %[1]s
semver: 1.0.0
owner: "@chaos"
title: A tool of an MCP server of a chaos run
description: It notes in a ledger what it does.
determinism: %[2]s
transport: mcp
endpoint: {server: ledger, tool: %[1]s, invocation: true, lookup: {tool: lookup, argument: key}}
functions:
  do: {description: It notes what it does., request: request.json, response: response.json}
capabilities: {streaming: %[3]t, lookup: %[4]t}
limits: {timeout_ms_default: 5000, timeout_ms_max: %[5]d, concurrency_max: 64}
errors:
  - {code: flaky, class: R-UPSTREAM, message: It failed before its effect., fix: Try again.}
  - {code: refused, class: P-PRECOND, message: It will not do it., fix: Ask for something else.}
  - {code: late, class: R-UPSTREAM, message: It failed after its effect., fix: Try again.}
`

// WriteTools writes the folders of the tools, and servers.json, into dir, the folder of all tools of a run. command is
// the command line that runs the server.
func WriteTools(dir string, command ...string) error {
	servers, err := json.Marshal(map[string]mcp.Servers{"servers": {
		"ledger": client.Server{Command: command[0], Args: append(command[1:], Word)},
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, mcp.ServersFile), servers, 0o600)
	}
	for _, s := range Specs() {
		folder := filepath.Join(dir, subjects.Token(s.ID))
		err = errors.Join(err, os.MkdirAll(folder, 0o700))
		for name, content := range map[string]string{
			"tool.yaml":    fmt.Sprintf(manifest, s.ID, s.Class, s.Streaming, s.Lookup, effects.TimeoutMS),
			"request.json": effects.RequestSchema, "response.json": effects.ResponseSchema,
		} {
			err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
		}
	}
	return err
}

// Serve serves the tools over standard input and output until ctx ends. path is the ledger.
func Serve(ctx context.Context, path string) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "chaos", Version: "1.0.0"}, nil)
	names := []string{lookupTool}
	for _, spec := range Specs() {
		names = append(names, spec.ID)
	}
	for _, name := range names {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: jsontext.Value(`{"type":"object"}`)}, func(
			ctx context.Context, req *sdk.CallToolRequest,
		) (*sdk.CallToolResult, error) {
			return serve(ctx, req, path)
		})
	}
	return s.Run(ctx, &sdk.StdioTransport{})
}

// serve runs one call with effects.RunUntil, and converts its output to an MCP result.
func serve(ctx context.Context, req *sdk.CallToolRequest, path string) (*sdk.CallToolResult, error) {
	request, err := requestOf(req)
	if err != nil {
		return nil, err
	}
	if left, ok := req.Params.Meta[envelope.MetaDeadlineMS].(float64); ok { // a frozen client sends no cancellation
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(left)*time.Millisecond)
		defer cancel()
	}
	w := &teller{ctx: ctx, req: req}
	if err := effects.RunUntil(ctx.Done(), bytes.NewReader(request), w, path); err != nil {
		return nil, err
	}
	if w.result == nil {
		syscall.Exit(0) // Fault Silent: end the process, like a program of package effects
	}
	return w.result, nil
}

// requestOf returns the request that a tool of package effects reads.
func requestOf(req *sdk.CallToolRequest) ([]byte, error) {
	told, _ := req.Params.Meta[envelope.MetaInvocation].(map[string]any)
	fence, _ := told["fence"].(string)
	number, err := strconv.ParseUint(fence, 10, 64)
	if err != nil {
		return nil, err
	}
	told["fence"] = number
	if told["input"] == nil {
		told["input"] = jsontext.Value(req.Params.Arguments)
	}
	return json.Marshal(told)
}

// teller converts output lines of a tool to the MCP result and progress notifications.
type teller struct {
	ctx    context.Context
	req    *sdk.CallToolRequest
	result *sdk.CallToolResult
}

// Write implements io.Writer. It must be called with one line at a time.
func (w *teller) Write(line []byte) (int, error) {
	var l struct {
		Type   string         `json:"type"`
		Data   jsontext.Value `json:"data"`
		Output jsontext.Value `json:"output"`
		Error  struct {
			Code   string `json:"code"`
			Effect string `json:"effect"`
		} `json:"error"`
	}
	if json.Unmarshal(line, &l) != nil {
		_, err := os.Stdout.WriteString(`{"jsonrpc":"2.0","result":` + string(line))
		w.result = &sdk.CallToolResult{Content: []sdk.Content{}}
		return len(line), err
	}
	w.result = &sdk.CallToolResult{Meta: sdk.Meta{}, Content: []sdk.Content{}}
	switch l.Type {
	case "chunk":
		w.result = nil
		return len(line), w.req.Session.NotifyProgress(w.ctx, &sdk.ProgressNotificationParams{
			Meta:          sdk.Meta{envelope.MetaChunk: map[string]any{"kind": "chunk", "data": l.Data}},
			ProgressToken: w.req.Params.GetProgressToken(),
		})
	case "output":
		w.result.StructuredContent = l.Output
	case "error":
		w.result.IsError = true
		w.result.Meta[envelope.MetaCode], w.result.Meta[envelope.MetaEffect] = l.Error.Code, l.Error.Effect
	case "absent":
		w.result.Meta[envelope.MetaAbsent] = true
	}
	return len(line), nil
}
