package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// object is arguments, or a part of a result.
type object = map[string]any

// result is the schema of whole results of MCP.
const result = `{"$comment":"` + envelope.MCPResult + `","type":"object","required":["content"]}`

const anything = `{"type":"object"}`

// pixel is an image, and tone a sound, as small as there are.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func tone() string {
	return base64.StdEncoding.EncodeToString([]byte("RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00" +
		"@\x1f\x00\x00\x80>\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00"))
}

func text(s string) object { return object{"type": "text", "text": s} }

func embedded(uri string) object {
	return object{"type": "resource", "resource": object{
		"uri": uri, "mimeType": "text/plain", "text": "This is an embedded resource content.",
	}}
}

// fixture is a tool that the suite asks for.
type fixture struct {
	name, description, request string
	streaming                  bool
	run                        func(ctx context.Context, run *toolbus.Run, in object) ([]object, error)
}

// says is a tool that always says the same.
func says(content ...object) func(context.Context, *toolbus.Run, object) ([]object, error) {
	return func(context.Context, *toolbus.Run, object) ([]object, error) { return content, nil }
}

var errIntended = &toolbus.ToolError{
	Name:    "intended",
	Class:   "S-TOOL",
	Message: "This tool intentionally returns an error for testing",
	Fix:     "do nothing",
}

func fixtures() (*toolbus.Toolset, error) {
	tools := toolbus.NewToolset()
	var all error
	for _, f := range list() {
		about := toolbus.Tool{
			ID: f.name, Class: toolbus.Pure, Description: f.description, Streaming: f.streaming,
			Request: jsontext.Value(f.request), Response: jsontext.Value(result), Timeout: time.Minute,
			MaxTimeout: 5 * time.Minute, Errors: []*toolbus.ToolError{errIntended},
		}
		if f.request == "" {
			about.Request = jsontext.Value(anything)
		}
		all = errors.Join(all, toolbus.Add(tools, about,
			func(ctx context.Context, run *toolbus.Run, in object) (object, error) {
				content, err := f.run(ctx, run, in)
				return object{"content": content}, err
			}))
	}
	return tools, all
}

func list() []fixture {
	image := object{"type": "image", "data": pixel, "mimeType": "image/png"}
	return []fixture{
		{name: "test_simple_text", run: says(text("This is a simple text response for testing."))},
		{name: "test_image_content", run: says(image)},
		{name: "test_audio_content", run: says(object{"type": "audio", "data": tone(), "mimeType": "audio/wav"})},
		{name: "test_embedded_resource", run: says(embedded("test://embedded-resource"))},
		{name: "test_multiple_content_types", run: says(
			text("Multiple content types test:"), image, embedded("test://mixed-content-resource"))},
		{name: "test_tool_with_progress", streaming: true, run: withProgress},
		{name: "test_error_handling", run: func(context.Context, *toolbus.Run, object) ([]object, error) {
			return nil, errIntended
		}},
		{name: "json_schema_2020_12_tool", request: newest, run: echo},
		{name: "test_x_mcp_header", run: echo, request: `{"type":"object","properties":{` +
			`"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`},
		{name: "test_streaming_elicitation", run: says(text("no requests of the server's own"))},
		{name: "test_logging_tool", run: says(text("nothing is logged"))},
		{name: "greet", request: `{"type":"object","properties":{"name":{"type":"string"}}}`,
			run: func(_ context.Context, _ *toolbus.Run, in object) ([]object, error) {
				return []object{text(fmt.Sprintf("Hello, %v!", in["name"]))}, nil
			}},
		{name: "slow_compute", run: slow},
		{name: "failing_job", run: func(ctx context.Context, run *toolbus.Run, _ object) ([]object, error) {
			_, err := slow(ctx, run, object{"seconds": 1.0})
			return nil, errors.Join(err, errIntended)
		}},
		{name: "protocol_error_job", run: func(ctx context.Context, run *toolbus.Run, _ object) ([]object, error) {
			panic("as the suite wants")
		}},
	}
}

func echo(_ context.Context, _ *toolbus.Run, in object) ([]object, error) {
	said, err := json.Marshal(in)
	return []object{text(string(said))}, err
}

func withProgress(ctx context.Context, run *toolbus.Run, _ object) ([]object, error) {
	for _, at := range []int{0, 50, 100} {
		says := object{"progress": at, "total": 100, "message": fmt.Sprintf("Completed step %d of 100", at)}
		if err := run.Progress(says); err != nil {
			return nil, err
		}
		if _, err := slow(ctx, run, object{"seconds": 0.05}); err != nil {
			return nil, err
		}
	}
	return []object{text("Tool with progress executed successfully")}, nil
}

// slow takes as many seconds as it is told.
// slow takes some seconds, and says to whoever tests it when a long run begins, and when it is cancelled.
func slow(ctx context.Context, _ *toolbus.Run, in object) ([]object, error) {
	seconds, _ := in["seconds"].(float64)
	if seconds >= long {
		fmt.Fprintln(os.Stderr, "a long run begins")
	}
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return []object{text(fmt.Sprintf("computed %v", in["label"]))}, nil
	case <-ctx.Done():
		if seconds >= long {
			fmt.Fprintln(os.Stderr, "a long run is cancelled")
		}
		return nil, ctx.Err()
	}
}

// long is how many seconds nobody waits for.
const long = 60

// newest is a schema with what JSON Schema 2020-12 has.
const newest = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "$defs": {"address": {"$anchor": "addressDef", "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
  "properties": {
    "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
    "phone": {"type": "string"}, "email": {"type": "string"}},
  "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
  "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
  "then": {"required": ["phone"]}, "else": {"required": ["email"]},
  "additionalProperties": false
}`
