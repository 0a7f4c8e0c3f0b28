package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

func TestMain(m *testing.M) {
	toolbus.SupervisorMain() // starts the programs of tools, as in TestToolWithoutFunctions
	if len(os.Args) == 3 && os.Args[1] == "feed" {
		_ = newFeed(os.Args[2]).Run(context.Background(), &sdk.StdioTransport{}) // until its input ends
		return
	}
	goleak.VerifyTestMain(m)
}

// fixture is a bus with tools that tests can look into, and hold up.
type fixture struct {
	*toolbustest.Bus
	ran  atomic.Int64  // runs of send
	hold chan struct{} // what hold waits for, while it is not nil
	held chan string   // tells that a run waits, and with what input
	ends chan error    // how the context of a run of hold has ended
}

type text struct {
	Text string `json:"text"`
}

var errFull = &toolbus.ToolError{Name: "full", Class: "P-PRECOND", Message: "the box is full", Fix: "empty the box"}

func start(t testing.TB, more ...toolbus.Tool) *fixture {
	t.Helper()
	f := &fixture{hold: make(chan struct{}), held: make(chan string, 100), ends: make(chan error, 100)}
	tools := toolbus.NewToolset()
	add(t, tools, toolbus.Tool{ID: "echo", Class: toolbus.Pure, Title: "Echo", Description: "Says what it is told."},
		func(_ context.Context, _ *toolbus.Run, in text) (text, error) { return in, nil })
	add(t, tools, toolbus.Tool{ID: "send", Class: toolbus.SideEffectful, Description: "Sends a text."},
		func(_ context.Context, _ *toolbus.Run, in text) (text, error) {
			f.ran.Add(1)
			return in, nil
		})
	add(t, tools, toolbus.Tool{ID: "hold", Class: toolbus.Idempotent, Description: "Waits."}, f.wait)
	add(t, tools, toolbus.Tool{ID: "fail", Class: toolbus.Pure, Errors: []*toolbus.ToolError{errFull}},
		func(_ context.Context, _ *toolbus.Run, in text) (text, error) {
			return in, errFull.Because("%s", in.Text)
		})
	add(t, tools, toolbus.Tool{ID: "count", Class: toolbus.Pure, Streaming: true},
		func(_ context.Context, run *toolbus.Run, to int) ([]int, error) { return count(run, to) })
	for _, about := range more {
		add(t, tools, about, func(_ context.Context, _ *toolbus.Run, in text) (text, error) { return in, nil })
	}
	f.Bus = toolbustest.Start(t, tools)
	return f
}

func add[In, Out any](
	t testing.TB, tools *toolbus.Toolset, about toolbus.Tool, f func(context.Context, *toolbus.Run, In) (Out, error),
) {
	t.Helper()
	if err := toolbus.Add(tools, about, f); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) wait(ctx context.Context, _ *toolbus.Run, in text) (text, error) {
	f.held <- in.Text
	select {
	case <-f.hold:
		f.ends <- nil
		return in, nil
	case <-ctx.Done():
		f.ends <- context.Cause(ctx)
		return in, ctx.Err()
	}
}

func count(run *toolbus.Run, to int) (all []int, err error) {
	for i := range to {
		err = errors.Join(err, run.Progress(map[string]int{"done": i + 1, "total": to}), run.Emit(i))
		all = append(all, i)
	}
	return all, err
}

// connect connects a client to a door over memory. protocol is the newest that it speaks.
func (f *fixture) connect(t *testing.T, door *mcp.Server, protocol string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	in, asks := io.Pipe()
	hears, out := io.Pipe()
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		err := door.Serve(ctx, in, out)
		_ = out.Close() // as the end of a process does
		served <- err
	}()
	session := join(t, &sdk.IOTransport{Reader: hears, Writer: asks}, protocol, o)
	t.Cleanup(func() {
		_ = session.Close() // the other side may have gone
		stop()
		<-served
	})
	return session
}

// join connects a client over a transport.
func join(t testing.TB, over sdk.Transport, protocol string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	session, err := client.Connect(t.Context(), over, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// The protocols that tests speak.
var protocols = []string{"2026-07-28", "2025-11-25"}

// callNamed calls a tool and returns its result.
func callNamed(t *testing.T, s *sdk.ClientSession, name, arguments string, meta sdk.Meta) *sdk.CallToolResult {
	t.Helper()
	res, err := s.CallTool(
		t.Context(),
		&sdk.CallToolParams{Name: name, Arguments: json.RawMessage(arguments), Meta: meta},
	)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// words are all texts of a result.
func words(res *sdk.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// structured is the structured content of a result, as JSON.
func structured(t *testing.T, res *sdk.CallToolResult) string {
	t.Helper()
	if res.StructuredContent == nil {
		return ""
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
