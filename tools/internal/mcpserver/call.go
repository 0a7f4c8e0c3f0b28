package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"time"

	jsonv1 "encoding/json"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
	"github.com/seed-018f16cc/toolbus/program"
)

// raw is a schema as its file has it.
func raw(s *jsonschema.Schema) jsonv1.RawMessage { return jsonv1.RawMessage(s.Raw()) }

// call runs one call of the tool.
func (r runner) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	request, err := json.Marshal(program.Call{
		Op: program.OpExecute, ToolID: r.manifest.ToolID, ToolVersion: r.manifest.Semver, Fn: r.fn().Name,
		Input: jsontext.Value(req.Params.Arguments), CallID: text(req, envelope.MetaCallID), Attempt: 1,
		IdempotencyKey: text(req, envelope.MetaIdempotencyKey), DeadlineUnixMS: deadline(req),
	})
	if err != nil {
		return nil, err
	}
	w := &answer{ctx: ctx, req: req}
	if err := program.Run(ctx, r.tool.Program, bytes.NewReader(request), w); err != nil {
		return nil, err
	}
	if w.last.Error.Code == protocol.Undecoded {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: w.last.Error.Message}
	}
	return r.result(w.last)
}

// text is a member of what the client says beside the arguments, or "".
func text(req *sdk.CallToolRequest, name string) string {
	s, _ := req.Params.Meta[name].(string)
	return s
}

// deadline is when the client no longer waits, or 0.
func deadline(req *sdk.CallToolRequest) int64 {
	if left, ok := req.Params.Meta[envelope.MetaDeadlineMS].(float64); ok && left > 0 {
		return time.Now().Add(time.Duration(left) * time.Millisecond).UnixMilli()
	}
	return 0
}

// line is any line that a tool writes.
type line struct {
	Type        string         `json:"type"`
	Data        jsontext.Value `json:"data"`
	Output      jsontext.Value `json:"output"`
	SideEffects jsontext.Value `json:"side_effects"`
	Warnings    []string       `json:"warnings"`
	Error       struct {
		Code         string         `json:"code"`
		Message      string         `json:"message"`
		Details      map[string]any `json:"details"`
		Effect       string         `json:"effect"`
		RetryAfterMS int64          `json:"retry_after_ms"`
	} `json:"error"`
}

// answer takes the lines of one call: those before the last one become progress.
type answer struct {
	ctx  context.Context // of the call; io.Writer has no place for it
	req  *sdk.CallToolRequest
	told float64
	last line
}

// Write takes one line.
func (a *answer) Write(b []byte) (int, error) {
	a.last = line{}
	if err := json.Unmarshal(b, &a.last); err != nil {
		return 0, err
	}
	token := a.req.Params.GetProgressToken()
	if a.last.Data == nil || token == nil {
		return len(b), nil
	}
	kind := envelope.ChunkKind(a.last.Type)
	if a.last.Type == protocol.LineChunk { // the one that the bus has another word for
		kind = envelope.ChunkData
	}
	a.told++
	return len(b), a.req.Session.NotifyProgress(a.ctx, &sdk.ProgressNotificationParams{
		ProgressToken: token, Progress: a.told,
		Meta: sdk.Meta{envelope.MetaChunk: map[string]any{"kind": kind, "data": jsonv1.RawMessage(a.last.Data)}},
	})
}

// result is what the last line says.
func (r runner) result(l line) (*sdk.CallToolResult, error) {
	if l.Output != nil {
		meta := sdk.Meta{}
		if len(l.Warnings) > 0 {
			meta[envelope.MetaWarnings] = l.Warnings
		}
		if string(l.SideEffects) != "[]" {
			meta[envelope.MetaSideEffects] = jsonv1.RawMessage(l.SideEffects)
		}
		return &sdk.CallToolResult{
			Meta: meta, Content: []sdk.Content{&sdk.TextContent{Text: string(l.Output)}},
			StructuredContent: jsonv1.RawMessage(l.Output),
		}, nil
	}
	code, details := l.Error.Code, maps.Clone(l.Error.Details)
	if means, other := r.tool.Means[code]; other {
		if details == nil {
			details = map[string]any{}
		}
		code, details["kind"] = means, code
	}
	if _, declared := r.manifest.Errors[code]; !declared {
		return nil, errors.New("the tool failed in a way that its contract does not know: " + code)
	}
	meta := sdk.Meta{envelope.MetaCode: code, envelope.MetaEffect: l.Error.Effect}
	if details != nil {
		meta[envelope.MetaDetails] = details
	}
	if l.Error.RetryAfterMS > 0 {
		meta[envelope.MetaRetryAfterMS] = l.Error.RetryAfterMS
	}
	return &sdk.CallToolResult{
		Meta: meta, IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: l.Error.Message}},
	}, nil
}
