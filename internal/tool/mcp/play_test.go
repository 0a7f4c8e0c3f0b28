//go:build linux

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// This binary is the test, the supervisor, and the servers.
func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	if len(os.Args) > 2 && os.Args[1] == "play" {
		syscall.Exit(play(os.Args[2], os.Args[3:])) // os.Exit sleeps a second under the race detector
	}
	goleak.VerifyTestMain(m)
}

// play runs one of the servers and returns its exit status.
func play(part string, args []string) int {
	parts := map[string]func(args []string) int{"behave": behave, "misbehave": misbehave, "turncoat": turncoat}
	return parts[part](args)
}

// anything is the schema of every value that MCP takes as arguments.
var anything = json.RawMessage(`{"type":"object"}`)

func newServer() *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1.0.0"}, nil)
}

func serve(s *sdk.Server) int {
	if err := s.Run(context.Background(), &spy{Transport: &sdk.StdioTransport{}}); err != nil {
		return 1
	}
	return 0
}

// spy is a transport that records the context of calls unchanged, because the SDK sorts its members.
type spy struct{ sdk.Transport }

type spied struct{ sdk.Connection }

var contexts sync.Map // by call id

func (s *spy) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := s.Transport.Connect(ctx)
	return spied{c}, err
}

func (s spied) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := s.Connection.Read(ctx)
	if req, ok := msg.(*jsonrpc.Request); ok {
		var p struct {
			Meta struct {
				Invocation struct {
					CallID  string          `json:"call_id"`
					Context json.RawMessage `json:"context"`
				} `json:"io.toolbus/invocation"`
			} `json:"_meta"`
		}
		if json.Unmarshal(req.Params, &p) == nil {
			contexts.Store(p.Meta.Invocation.CallID, p.Meta.Invocation.Context)
		}
	}
	return msg, err
}

// behave is a server with the tool of the suite.
func behave([]string) int {
	s := newServer()
	s.AddTool(&sdk.Tool{Name: "behave", InputSchema: anything}, func(
		ctx context.Context, req *sdk.CallToolRequest,
	) (*sdk.CallToolResult, error) {
		inv := invocation(req)
		res, err := tooltest.Behave(ctx, inv, notifier{req})
		return answer(res, err)
	})
	s.AddTool(&sdk.Tool{Name: "plain", InputSchema: anything}, func(
		_ context.Context, req *sdk.CallToolRequest,
	) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}}, nil
	})
	s.AddTool(&sdk.Tool{Name: "look", InputSchema: anything}, func(
		ctx context.Context, req *sdk.CallToolRequest,
	) (*sdk.CallToolResult, error) {
		inv := invocation(req)
		var args struct{ Key string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil || args.Key != inv.IdempotencyKey {
			return nil, errors.New("the key is not in its argument")
		}
		res, found, err := tooltest.BehaveLookup(ctx, inv)
		if err == nil && !found {
			return &sdk.CallToolResult{Meta: sdk.Meta{envelope.MetaAbsent: true}, Content: []sdk.Content{}}, nil
		}
		return answer(res, err)
	})
	return serve(s)
}

// invocation decodes the invocation in the _meta of a request.
func invocation(req *sdk.CallToolRequest) tool.Invocation {
	raw, err := json.Marshal(req.Params.Meta[envelope.MetaInvocation])
	if err != nil {
		panic(err)
	}
	var told struct {
		CallID         string `json:"call_id"`
		ToolID         string `json:"tool_id"`
		ToolVersion    string `json:"tool_version"`
		Fn             string `json:"fn"`
		IdempotencyKey string `json:"idempotency_key"`
		Attempt        int    `json:"attempt"`
		Fence          string `json:"fence"`
		DeadlineUnixMS int64  `json:"deadline_unix_ms"`
		DryRun         bool   `json:"dry_run"`
		Digest         string `json:"digest"`
		Traceparent    string `json:"traceparent"`
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		panic(err)
	}
	fence, err := strconv.ParseUint(told.Fence, 10, 64)
	if err != nil {
		panic(err)
	}
	said, _ := contexts.Load(told.CallID)
	raw, _ = said.(json.RawMessage)
	return tool.Invocation{
		CallID: told.CallID, ToolID: told.ToolID, ToolVersion: told.ToolVersion, Fn: told.Fn,
		Input: jsontext.Value(req.Params.Arguments), Context: jsontext.Value(raw),
		IdempotencyKey: told.IdempotencyKey, Attempt: told.Attempt, Fence: fence,
		Deadline: time.UnixMilli(told.DeadlineUnixMS), DryRun: told.DryRun, Digest: told.Digest,
		Traceparent: told.Traceparent,
	}
}

// answer encodes a result or an error as a server written for Toolbus does.
func answer(res tool.Result, err error) (*sdk.CallToolResult, error) {
	said, isSaid := errors.AsType[*tool.Error](err)
	if isSaid {
		meta := sdk.Meta{envelope.MetaCode: said.Code}
		if said.Effect != "" {
			meta[envelope.MetaEffect] = said.Effect
		}
		if said.RetryAfter > 0 {
			meta[envelope.MetaRetryAfterMS] = said.RetryAfter.Milliseconds()
		}
		if said.Details != nil {
			meta[envelope.MetaDetails] = said.Details
		}
		content := []sdk.Content{&sdk.TextContent{Text: said.Message}}
		return &sdk.CallToolResult{Meta: meta, IsError: true, Content: content}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &sdk.CallToolResult{Meta: sdk.Meta{}, Content: []sdk.Content{&sdk.TextContent{Text: string(res.Output)}}}
	if res.SideEffects != nil {
		r.Meta[envelope.MetaSideEffects], r.Meta[envelope.MetaWarnings] = res.SideEffects, res.Warnings
	}
	return r, nil
}

// notifier is a sink that sends chunks to the client.
type notifier struct{ req *sdk.CallToolRequest }

func (n notifier) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	return n.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		Meta:          sdk.Meta{envelope.MetaChunk: map[string]any{"kind": kind, "data": data}},
		ProgressToken: n.req.Params.GetProgressToken(),
	})
}
