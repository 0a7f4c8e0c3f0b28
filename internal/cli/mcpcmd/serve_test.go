package mcpcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// TestMain turns this binary into a gateway or an stdio server if a test needs a process.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "door" {
		cmd := Gateway(cli.Env{Stdout: os.Stdout, Stderr: os.Stderr}, connecting(os.Args[2]))
		cmd.SetArgs([]string{"mcp", "--listen", "127.0.0.1:0"})
		if cmd.Execute() != nil {
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		cli.Main(func(ctx context.Context) int {
			cmd := Serve(cli.Env{Stdout: os.Stdout, Stderr: os.Stderr}, os.Stdin, connecting(os.Args[2]))
			cmd.SetArgs([]string{})
			if cmd.ExecuteContext(ctx) != nil {
				return 1
			}
			return 0
		})
	}
	goleak.VerifyTestMain(m)
}

// If there is no bus, the answer to the agent's first request contains the reason.
func TestServeNoBus(t *testing.T) {
	away := func(context.Context, auth.Role) (*toolbus.Conn, *toolbus.Client, error) {
		return nil, nil, errors.New("start a bus")
	}
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"x"}` + "\n" + `{"jsonrpc":"2.0","id":"a","method":"initialize"}` + "\n": `"id":"a"`,
		`{"id":1,"method":"server/discover"}` + "\n" + `[{"id":2,"method":"initialize"}]`:                   `"id":2`,
		"": "", "{\n": "",
	} {
		var out bytes.Buffer
		cmd := Serve(cli.Env{Stdout: &out, Stderr: io.Discard}, strings.NewReader(in), away)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{})
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Error("it serves")
		}
		if said := out.String(); !strings.Contains(said, want) || (want == "") != (said == "") ||
			want != "" && !strings.Contains(said, "toolbus: start a bus") {
			t.Errorf("%q: %q", in, said)
		}
	}
}

// Stopping is not an error, also during a call.
func TestServeStopped(t *testing.T) {
	tools, held, hold := toolbus.NewToolset(), make(chan struct{}), make(chan struct{})
	if err := toolbus.Add(tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure},
		func(context.Context, *toolbus.Run, struct{}) (string, error) {
			close(held)
			<-hold
			return "done", nil
		}); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	defer close(hold)
	ctx, stop := context.WithCancel(t.Context())
	in, asks := io.Pipe()
	defer func() { _ = in.Close() }() // the reader has ended
	cmd := Serve(cli.Env{Stdout: io.Discard, Stderr: io.Discard}, in, connecting(bus.URL))
	cmd.SetArgs([]string{})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, err := io.WriteString(asks, call+"\n"); err != nil {
		t.Fatal(err)
	}
	<-held
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// connecting returns a Connect for a bus that checks no tokens.
func connecting(url string) Connect {
	return func(ctx context.Context, _ auth.Role) (*toolbus.Conn, *toolbus.Client, error) {
		conn, err := toolbus.Connect(ctx, url, toolbus.Options{})
		if err != nil {
			return nil, nil, err
		}
		client, err := conn.Client(toolbus.ClientOptions{})
		return conn, client, err
	}
}

// A client that starts the command lists and calls the tools, and the command ends with it.
func TestServe(t *testing.T) {
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "double", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in struct{ N int }) (int, error) { return 2 * in.N, nil }); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	connect := connecting(bus.URL)
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
