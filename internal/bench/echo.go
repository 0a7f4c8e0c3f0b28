package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// echo is an adapter whose tools return their input. Its runs cost next to nothing, so that the bus is measured.
// Function stream emits two chunks, and function slow takes slowPause.
type echo struct{}

// Pause after each chunk of function stream, and duration of function slow.
const (
	streamPause = 10 * time.Millisecond
	slowPause   = 3 * time.Second
)

func (echo) Validate(*tool.Manifest) error { return nil }

func (echo) Execute(ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	switch inv.Fn {
	case fnStream:
		for range 2 {
			if err := sink.Emit(ctx, envelope.ChunkData, inv.Input); err != nil {
				return tool.Result{}, err
			}
			if !timer.Sleep(ctx, streamPause) {
				return tool.Result{}, context.Cause(ctx)
			}
		}
	case fnSlow:
		if !timer.Sleep(ctx, slowPause) {
			return tool.Result{}, context.Cause(ctx)
		}
	}
	return tool.Result{Output: inv.Input}, nil
}

func (echo) Lookup(context.Context, *tool.Manifest, tool.Invocation) (tool.Result, bool, error) {
	return tool.Result{}, false, tool.ErrNoLookup
}

// Adapters returns the adapters of the measured executor.
func Adapters() map[string]tool.Adapter {
	return map[string]tool.Adapter{native.Transport: echo{}}
}

const (
	fnEcho   = "echo"
	fnStream = "stream"
	fnSlow   = "slow"
)

func toolID(n int) string { return fmt.Sprintf("bench.echo%d", n) }

const manifest = `tool_id: %s
semver: 1.0.0
owner: "@bench"
description: Returns its input.
determinism: pure
transport: %s
functions:
  echo: {description: Returns its input., request: schema.json, response: schema.json}
  stream: {description: Returns its input in pieces., request: schema.json, response: schema.json}
  slow: {description: Returns its input a while later., request: schema.json, response: schema.json}
capabilities: {streaming: true}
limits: {timeout_ms_default: 60000, timeout_ms_max: 600000, concurrency_max: 10000, output_bytes_max: 67108864}
`

const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["data"],
"properties":{"data":{"type":"string"}},"additionalProperties":false}`

// writeTools writes the manifests of n tools to dir. Process tools get a program too.
func writeTools(dir string, n int, transport string) error {
	for i := range n {
		folder := filepath.Join(dir, subjects.Token(toolID(i)))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		text := fmt.Sprintf(manifest, toolID(i), transport)
		if transport == process.Transport {
			text += "endpoint: {command: [./run]}\n"
			if err := os.WriteFile(filepath.Join(folder, "run"), []byte("#!/bin/sh\n"), 0o700); err != nil {
				return err
			}
		}
		for name, text := range map[string]string{"tool.yaml": text, "schema.json": schema} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// registry returns a set of n tools.
func (o Options) registry(n int) (*tool.Set, error) {
	dir := filepath.Join(o.Dir, "tools-"+strconv.Itoa(n))
	if err := writeTools(dir, n, native.Transport); err != nil {
		return nil, err
	}
	return tool.Load(dir, app.Transports()...)
}

// Limits of the size of an input: an empty data field, and the largest size that is sent inline.
const (
	frame   = `{"data":""}`
	minSize = len(frame)
	maxSize = envelope.MaxInline
)

// input returns a JSON document of size bytes.
func input(size int) jsontext.Value {
	b := make([]byte, 0, size)
	b = append(b, frame[:len(frame)-2]...)
	for len(b) < size-2 {
		b = append(b, 'a'+byte(len(b)%26))
	}
	return append(b, frame[len(frame)-2:]...)
}
