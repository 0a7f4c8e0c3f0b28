package toolbus_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/native"
)

// A call returns one of four outcomes; errors of the tool are outcomes, not Go errors.
func ExampleClient_Call() {
	url, stop := exampleBus()
	defer stop()
	nc, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	client, err := toolbus.NewClient(nc, toolbus.ClientOptions{Actor: "agent://example"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	resp, err := client.Call(context.Background(), toolbus.Call{
		Tool: "greet", Input: jsontext.Value(`{"name":"Ada"}`), Timeout: 30 * time.Second,
	})
	if err != nil {
		log.Fatal(err) // the bus could not be asked at all
	}
	fmt.Println(resp.Status, string(resp.Output))

	resp, err = client.Call(context.Background(), toolbus.Call{Tool: "greet", Input: jsontext.Value(`{"nam":"Ada"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status, resp.Error.Code)
	for _, v := range resp.Error.Details.Violations {
		fmt.Println(v.Pointer)
	}
	// Output:
	// success {"greeting":"Hello Ada"}
	// invalid_request I-REQ-SCHEMA
	// /input/nam
	// /input/name
}

// Stream yields what a tool emits while it runs, in order and without gaps, and the outcome last.
func ExampleClient_Stream() {
	url, stop := exampleBus()
	defer stop()
	nc, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	client, err := toolbus.NewClient(nc, toolbus.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for part, err := range client.Stream(context.Background(), toolbus.Call{Tool: "greet", Input: jsontext.Value(`{"name":"Ada"}`)}) {
		switch {
		case err != nil:
			log.Fatal(err)
		case part.Chunk != nil:
			fmt.Println(part.Chunk.Index, part.Chunk.Kind, string(part.Chunk.Data))
		default:
			fmt.Println(part.Response.Status)
		}
	}
	// Output:
	// 0 data "Hello"
	// 1 data "Ada"
	// success
}

// exampleBus runs a bus with one tool in this process, as an embedding program would.
func exampleBus() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "toolbus-example-")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := natsserver.Start(natsserver.Options{StoreDir: filepath.Join(dir, "nats")})
	if err != nil {
		log.Fatal(err)
	}
	registry := exampleTool(filepath.Join(dir, "tools", "greet"))
	ctx, cancel := context.WithCancel(context.Background())
	var wg, ready sync.WaitGroup
	ready.Add(2)
	run := func(f func(c *app.Conn) error) {
		c, err := app.Connect(ctx, "example", app.Options{URL: srv.URL()})
		if err != nil {
			log.Fatal(err)
		}
		wg.Go(func() {
			defer c.Close()
			if err := f(c); err != nil {
				log.Fatal(err)
			}
		})
	}
	run(func(c *app.Conn) error {
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{Registry: registry, Version: "0.0.1", Ready: ready.Done})
	})
	run(func(c *app.Conn) error {
		greeter := native.New(map[string]native.Func{"greet": greet})
		return app.RunExecutor(ctx, c, app.ExecutorOptions{
			Registry: registry, Adapters: map[string]tool.Adapter{native.Transport: greeter}, Ready: ready.Done,
		})
	})
	ready.Wait()
	return srv.URL(), func() { cancel(); wg.Wait(); srv.Stop(); os.RemoveAll(dir) }
}

func greet(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	for _, word := range []string{`"Hello"`, `"Ada"`} {
		if err := sink.Emit(ctx, envelope.ChunkData, jsontext.Value(word)); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Output: jsontext.Value(`{"greeting":"Hello Ada"}`)}, nil
}

func exampleTool(dir string) *tool.Registry {
	files := map[string]string{
		"tool.yaml": `
tool_id: greet
semver: 1.0.0
owner: "@example"
title: Greet
description: Says hello.
status: active
determinism: pure
transport: native
endpoint: {native: greet}
functions:
  greet: {description: Says hello., request: request.json, response: response.json}
capabilities: {streaming: true}
`,
		"request.json":  `{"type":"object","required":["name"],"properties":{"name":{"type":"string"}},"additionalProperties":false}`,
		"response.json": `{"type":"object","required":["greeting"],"properties":{"greeting":{"type":"string"}}}`,
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		log.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	registry, err := tool.Load(filepath.Dir(dir), app.Transports()...)
	if err != nil {
		log.Fatal(err)
	}
	return registry
}
