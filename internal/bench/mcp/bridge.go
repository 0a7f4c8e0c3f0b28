package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/bench/process"
)

// Options configures [Measure].
type Options struct {
	URL      string // of the NATS server
	Dir      string // for files
	Rounds   int
	Duration time.Duration // of each side in a round
	AtOnce   int           // number of waiting calls
	// Start starts a process of the toolbus command, and Node one of the command of this benchmark.
	Start, Node func(name string, args ...string) (*process.Process, error)
}

// Report is the result. Times are medians in milliseconds of one caller that makes calls in sequence.
type Report struct {
	Direct, Proxy, Bus, Through float64
	// Resident is the memory of each process in MB while Options.AtOnce calls wait.
	Resident map[string]float64
}

// Added returns the time that gateway and adapter add to the times of the MCP server and of a call.
func (r Report) Added() float64 { return r.Through - r.Direct - r.Bus }

// Measure makes the measurements.
func Measure(ctx context.Context, o Options) (r Report, err error) {
	return r, errors.Join(o.compare(ctx, &r), o.crowd(ctx, &r))
}

// world holds all clients and servers of the comparison.
type world struct {
	options Options
	bus     *toolbus.Client
	direct  *sdk.ClientSession
	proxied *sdk.ClientSession
	through *sdk.ClientSession
	stops   []func() error // called in reverse order
}

func (w *world) stop() (err error) {
	for _, stop := range slices.Backward(w.stops) {
		err = errors.Join(err, stop())
	}
	return err
}

func (w *world) later(stop func() error) { w.stops = append(w.stops, stop) }

func (w *world) start(ctx context.Context) error {
	upstream, stop, err := serve((&server{}).handler())
	if err != nil {
		return err
	}
	w.later(stop)
	between, err := proxy(upstream)
	if err != nil {
		return err
	}
	proxied, stop, err := serve(between)
	if err != nil {
		return err
	}
	w.later(stop)
	if err := w.startBus(ctx, upstream); err != nil {
		return err
	}
	door := mcp.New(ctx, w.bus, mcp.Options{TaskAfter: -1})
	entry, stop, err := serve(door.Handler())
	if err != nil {
		return err
	}
	w.later(stop)
	for session, at := range map[**sdk.ClientSession]string{
		&w.direct: upstream, &w.proxied: proxied, &w.through: entry,
	} {
		if *session, err = connect(ctx, at); err != nil {
			return err
		}
		w.later((*session).Close)
	}
	return nil
}

func connect(ctx context.Context, at string) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	return client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: at, DisableStandaloneSSE: true}, nil)
}

// startBus starts a dispatcher and an executor with the tools of the MCP server and one Go function.
func (w *world) startBus(ctx context.Context, upstream string) error {
	if err := manifests(w.options.Dir, upstream); err != nil {
		return err
	}
	type text struct {
		Text string `json:"text"`
	}
	tools := toolbus.NewToolset()
	if err := errors.Join(tools.AddFolder(w.options.Dir), toolbus.Add(tools,
		toolbus.Tool{ID: "own.echo", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in text) (text, error) { return in, nil })); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	parts, ctx := errgroup.WithContext(ctx)
	w.later(func() error { cancel(); return parts.Wait() })
	if err := w.run(ctx, parts, tools); err != nil {
		return err
	}
	conn, err := toolbus.Connect(ctx, w.options.URL, toolbus.Options{})
	if err != nil {
		return err
	}
	w.later(func() error { conn.Close(); return nil })
	w.bus, err = conn.Client(toolbus.ClientOptions{})
	return err
}

// run starts dispatcher and executor, and returns when both are ready.
func (w *world) run(ctx context.Context, parts *errgroup.Group, tools *toolbus.Toolset) error {
	ready := make(chan struct{}, 2)
	conn, err := toolbus.Connect(ctx, w.options.URL, toolbus.Options{})
	if err != nil {
		return err
	}
	w.later(func() error { conn.Close(); return nil })
	d, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, Ready: func(string) { ready <- struct{}{} },
	})
	if err != nil {
		return err
	}
	e, err := conn.Executor(tools, toolbus.ExecutorOptions{
		Environ: os.Environ(), Ready: func(string) { ready <- struct{}{} },
	})
	if err != nil {
		return err
	}
	parts.Go(func() error { return d.Run(ctx) })
	for _, next := range []func() error{func() error { return e.Run(ctx) }, nil} {
		select {
		case <-ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if next != nil {
			parts.Go(next)
		}
	}
	return nil
}

// compare makes calls by each of the four ways in turn.
func (o Options) compare(ctx context.Context, r *Report) (err error) {
	w := &world{options: o}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.start(ctx); err != nil {
		return err
	}
	sides := []struct {
		of   *float64
		call func(ctx context.Context, text string) error
	}{
		{&r.Direct, on(w.direct, "echo")}, {&r.Proxy, on(w.proxied, "echo")},
		{&r.Bus, w.own}, {&r.Through, on(w.through, "mcp.echo")},
	}
	took := make([][]float64, len(sides))
	for round := range o.Rounds + 1 { // the first round is the warm-up
		for i, side := range sides {
			for n, end := 0, time.Now().Add(o.Duration); time.Now().Before(end); n++ {
				began := time.Now()
				if err := side.call(ctx, strconv.Itoa(round)+"."+strconv.Itoa(n)); err != nil {
					return err
				}
				if round > 0 {
					took[i] = append(took[i], time.Since(began).Seconds()*1000)
				}
			}
		}
	}
	for i, side := range sides {
		slices.Sort(took[i])
		*side.of = took[i][len(took[i])/2]
	}
	return nil
}

func arguments(text string) json.RawMessage { return json.RawMessage(`{"text":"` + text + `"}`) }

// on returns a function that calls a tool in a session.
func on(s *sdk.ClientSession, tool string) func(context.Context, string) error {
	return func(ctx context.Context, text string) error {
		r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments(text)})
		if err == nil && (r.IsError || r.StructuredContent == nil) {
			text, _ := json.Marshal(r) // it was decoded from JSON
			err = fmt.Errorf("%s has answered %s", tool, text)
		}
		return err
	}
}

// own calls the Go function.
func (w *world) own(ctx context.Context, text string) error {
	r, err := toolbus.Outcome(w.bus.Call(ctx, toolbus.Call{Tool: "own.echo", Input: []byte(arguments(text)),
		Key: "own-echo-call-" + text}))
	if err == nil && r.Error != nil {
		err = errors.New(r.Error.String())
	}
	return err
}
