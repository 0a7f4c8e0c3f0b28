package mcp_test

import (
	"context"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// dispatch runs a dispatcher with tools of those names until end is called.
func dispatch(t *testing.T, conn *toolbus.Conn, names ...string) (end func()) {
	t.Helper()
	tools := toolbus.NewToolset()
	for _, name := range names {
		add(t, tools, toolbus.Tool{ID: name, Class: toolbus.Pure},
			func(_ context.Context, _ *toolbus.Run, in text) (text, error) { return in, nil })
	}
	serving := make(chan string, 1)
	d, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, Ready: func(i string) { serving <- i },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case <-serving:
	case err := <-ended:
		t.Fatal(err)
	}
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Clients in every protocol and over every transport are told when the tools have changed, and list the new ones.
func TestChanged(t *testing.T) {
	conn, err := toolbus.Connect(t.Context(), natstest.Start(t).URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	end := dispatch(t, conn, "one")
	door := mcp.New(t.Context(), client, mcp.Options{Every: 20 * time.Millisecond})
	s := open(t, door)
	f := &fixture{}
	told := make(chan string, 1000)
	sessions := map[string]*sdk.ClientSession{}
	for _, protocol := range protocols {
		for _, transport := range []string{"http", "memory"} {
			name := protocol + " " + transport
			o := &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- name },
			}
			if transport == "http" {
				sessions[name] = over(t, s, protocol, o)
			} else {
				sessions[name] = f.connect(t, door, protocol, o)
			}
		}
	}
	for name, c := range sessions {
		if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 1 {
			t.Fatalf("%s: %+v, %v", name, tools, err)
		}
	}
	watching := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(watching); door.Watch(ctx) }()
	defer func() { stop(); <-watching }()
	end()
	defer dispatch(t, conn, "one", "two")()
	for left := len(sessions); left > 0; {
		name := <-told
		c := sessions[name]
		if c == nil {
			continue // told before
		}
		tools, err := c.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 2 {
			t.Errorf("%s: %+v, %v", name, tools, err)
		}
		delete(sessions, name)
		left--
	}
}
