package executor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Pool is the pool of the tool.
const Pool = "swift"

// Spec returns the description of the tool.
func Spec() effects.Spec { return effects.Spec{ID: "chaos.tick", Class: call.Idempotent} }

const manifest = `tool_id: chaos.tick
semver: 1.0.0
owner: "@chaos"
title: A tool of a chaos run that is part of its executor
description: It notes in a ledger what it does.
determinism: idempotent
pool: swift
transport: native
functions:
  do: {description: It notes what it does., request: request.json, response: response.json}
limits: {timeout_ms_default: 5000, timeout_ms_max: 60000, concurrency_max: 10000}
`

// WriteTool writes the folder of the tool into dir, the folder of all tools of a run.
func WriteTool(dir string) error {
	folder := filepath.Join(dir, subjects.Token(Spec().ID))
	err := os.MkdirAll(folder, 0o700)
	for name, content := range map[string]string{
		"tool.yaml": manifest, "request.json": effects.RequestSchema, "response.json": effects.ResponseSchema,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	return err
}

// options are the flags of executors in a chaos run.
type options struct {
	app.Options
	tools, credentials, ready string
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("swift", flag.ContinueOnError)
	f.StringVar(&o.URL, "server", "", "")
	f.StringVar(&o.tools, "tools", "", "")
	f.StringVar(&o.credentials, "credentials", "", "")
	f.StringVar(&o.ready, "ready-file", "", "")
	f.Func("sync", "", func(word string) error {
		o.Fsync = word == "always"
		return nil
	})
	f.IntVar(&o.KV.Group, "batch", 0, "")
	f.IntVar(&o.Topology.Partitions, "partitions", 0, "")
	f.IntVar(&o.Topology.Replicas, "replicas", 0, "")
	f.DurationVar(&o.Lease, "lease", 0, "")
	f.DurationVar(&o.Skew, "clock-skew", 0, "")
	return o, f.Parse(args)
}

// Serve runs the executor until ctx ends. args are the flags of an executor, and book is the path of the ledger.
func Serve(ctx context.Context, book string, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	registry, err := tool.Load(o.tools, app.Transports()...)
	if err != nil {
		return err
	}
	notes, err := os.OpenFile(book, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer notes.Close()
	o.Instance, o.Logger = link.NewInstanceID(), slog.New(slog.NewTextHandler(os.Stderr, nil))
	held, err := link.Hold(o.credentials, &o.Options.Options)
	if err != nil {
		return err
	}
	nc, err := held.Dial(ctx, "swift", o.Options.Options)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, stop := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer stop(nil)
	if held != nil {
		keeping.Go(func() { stop(held.Run(ctx)) })
	}
	c, err := app.Open(nc, o.Options)
	if err != nil {
		return err
	}
	defer c.Release()
	return app.RunExecutor(ctx, c, app.ExecutorOptions{
		Tools: registry, Pool: Pool, Slots: 64,
		Adapters: map[string]tool.Adapter{native.Transport: native.New(map[string]native.Func{Spec().ID: tick(notes)})},
		Ready:    func() { _ = os.WriteFile(o.ready, nil, 0o600) }, // if it fails, the run reports that the file is missing
	})
}

// tick returns the tool, which writes to the ledger.
func tick(notes *os.File) native.Func {
	return func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		var in effects.Input
		if err := json.Unmarshal(inv.Input, &in); err != nil {
			return tool.Result{}, err
		}
		for _, op := range []effects.Op{effects.Start, effects.Commit} {
			raw, err := json.Marshal(effects.Line{
				Op: op, Time: time.Now().UnixNano(), Tool: inv.ToolID, Key: inv.IdempotencyKey, CallID: inv.CallID,
				Attempt: inv.Attempt, Fence: inv.Fence, PID: os.Getpid(),
			})
			if err == nil {
				_, err = notes.Write(append(raw, '\n')) // one write, so that lines of several processes do not mix
			}
			if err != nil {
				return tool.Result{}, fmt.Errorf("ledger: %w", err)
			}
		}
		out, err := json.Marshal(effects.Output{N: in.N, Run: effects.RunName(inv.Fence, os.Getpid())})
		return tool.Result{Output: out}, err
	}
}
