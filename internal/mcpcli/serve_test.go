package mcpcli

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client that starts the command lists and calls the tools, and the command ends with it.
func TestServe(t *testing.T) {
	tools := toolbus.NewTools()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "double", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in struct{ N int }) (int, error) { return 2 * in.N, nil }); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	connect := func(ctx context.Context, _ identity.Role) (*toolbus.Conn, *toolbus.Client, error) {
		conn, err := toolbus.Connect(ctx, bus.URL, toolbus.Options{})
		if err != nil {
			return nil, nil, err
		}
		client, err := conn.Client(toolbus.ClientOptions{})
		return conn, client, err
	}
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		in, asks := io.Pipe()
		hears, out := io.Pipe()
		cmd := Serve(cli.Env{Stdout: out, Stderr: io.Discard}, in, connect)
		cmd.SetArgs([]string{})
		ended := make(chan error, 1)
		go func() {
			err := cmd.ExecuteContext(t.Context())
			_ = out.Close() // as the end of a process does
			ended <- err
		}()
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: hears, Writer: asks},
			&sdk.ClientSessionOptions{ProtocolVersion: protocol})
		if err != nil {
			t.Fatal(err)
		}
		if got := session.InitializeResult().ProtocolVersion; got != protocol {
			t.Errorf("speaks %s", got)
		}
		if all, err := session.ListTools(t.Context(), nil); err != nil || len(all.Tools) != 1 {
			t.Errorf("%+v, %v", all, err)
		}
		res, err := session.CallTool(
			t.Context(),
			&sdk.CallToolParams{Name: "double", Arguments: json.RawMessage(`{"N":4}`)},
		)
		if err != nil || res.IsError || res.Content[0].(*sdk.TextContent).Text != "8" {
			t.Errorf("%+v, %v", res, err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
