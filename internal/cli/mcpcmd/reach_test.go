package mcpcmd

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// The command serves before its bus is up: without tools, then with those of the bus.
func TestServeBeforeBus(t *testing.T) {
	srv := natstest.Start(t)
	srv.Stop()
	in, asks := io.Pipe()
	hears, out := io.Pipe()
	var says bytes.Buffer
	cmd := Serve(cli.Env{Stdout: out, Stderr: &says}, in, connecting(srv.URL))
	cmd.SetArgs([]string{})
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(t.Context())
		_ = out.Close() // as the end of a process does
		ended <- err
	}()
	told := make(chan struct{}, 100)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} },
	})
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: hears, Writer: asks}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if says := session.InitializeResult().Instructions; !strings.Contains(says, "not reached yet") {
		t.Errorf("the instructions are %q", says)
	}
	if all, err := session.ListTools(t.Context(), nil); err != nil || len(all.Tools) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	srv.Restart()
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "one", Class: toolbus.Pure},
		func(context.Context, *toolbus.Run, struct{}) (string, error) { return "1", nil }); err != nil {
		t.Fatal(err)
	}
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	dispatched := make(chan error, 1)
	go func() { dispatched <- d.Run(ctx) }()
	<-told
	if all, err := session.ListTools(t.Context(), nil); err != nil || len(all.Tools) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	<-ended // the client closes both pipes at once, so the last answer may fail
	if line, rest, _ := strings.Cut(says.String(), "\n"); !strings.Contains(line, srv.URL) || rest != "" {
		t.Errorf("standard error: %q", says.String())
	}
	stop()
	if err := <-dispatched; err != nil {
		t.Error(err)
	}
}
