// Command role is one of the processes of test/clock: a server, a dispatcher or an executor.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := play(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play serves until ctx ends: server STORE PORT, dispatcher URL TOOLS, or executor URL TOOLS LEDGER.
func play(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("usage: role server|dispatcher|executor STORE|URL PORT|TOOLS [LEDGER]")
	}
	if args[0] == "server" {
		return serve(ctx, args[1], args[2])
	}
	tools, err := tool.Load(args[2], app.Transports()...)
	if err != nil {
		return err
	}
	c, err := app.Connect(args[0], app.Options{
		Options: link.Options{URL: args[1], Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))},
		Lease:   2 * time.Second, Fsync: true, Topology: bus.TopologyOptions{},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if args[0] == "dispatcher" {
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{AllowAll: true, Tools: tools, Version: "0.0.1", Ready: ready})
	}
	run, funcs := work(args[3]), map[string]native.Func{}
	for _, m := range tools.List() {
		funcs[m.ToolID] = run
	}
	return app.RunExecutor(ctx, c, app.ExecutorOptions{
		Tools: tools, Adapters: map[string]tool.Adapter{native.Transport: native.New(funcs)}, Slots: 32, Ready: ready,
	})
}

func ready() { fmt.Println("ready") }

func serve(ctx context.Context, store, port string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	srv, err := natsserver.Start(natsserver.Options{StoreDir: store, Port: n, SyncAlways: true})
	if err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	srv.Stop()
	return nil
}

// work returns a tool that takes the time that its input says, and then commits its effect in the ledger.
func work(ledger string) native.Func {
	return func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		var in effects.Input
		if err := json.Unmarshal(inv.Input, &in); err != nil {
			return tool.Result{}, err
		}
		select {
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		case <-time.After(time.Duration(in.WorkMS) * time.Millisecond):
		}
		err := effects.Append(ledger, effects.Line{Op: effects.Commit, Tool: inv.ToolID, Key: strconv.FormatInt(in.N, 10),
			CallID: inv.CallID, Attempt: inv.Attempt, Fence: inv.Fence, PID: os.Getpid()})
		return tool.Result{Output: inv.Input}, err
	}
}
