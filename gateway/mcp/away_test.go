package mcp_test

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// A call that begins while the bus is away ends soon, unsent, over every transport. With a key of its caller, an
// earlier request may have done something.
func TestBusGoesAway(t *testing.T) {
	srv := natstest.Start(t)
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{})
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
	door := mcp.New(t.Context(), client, mcp.Options{Connected: conn.NATS().IsConnected})
	s, f := open(t, door), &fixture{}
	sessions := []*sdk.ClientSession{}
	for _, protocol := range protocols {
		sessions = append(sessions, over(t, s, protocol, nil), f.connect(t, door, protocol, nil))
	}
	for _, c := range sessions {
		if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 1 {
			t.Fatalf("%+v, %v", tools, err)
		}
	}
	end()
	lost := conn.NATS().StatusChanged(nats.RECONNECTING)
	srv.Stop()
	<-lost // until then a request may be sent
	type told struct {
		res  *sdk.CallToolResult
		err  error
		took time.Duration
		meta sdk.Meta
	}
	answers := make(chan told)
	for _, c := range sessions {
		for _, meta := range []sdk.Meta{nil, {envelope.MetaIdempotencyKey: "a-key-of-the-callers-own"}} {
			go func() {
				began := time.Now()
				res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "one", Arguments: text{"a"}, Meta: meta})
				answers <- told{res, err, time.Since(began), meta}
			}()
		}
	}
	for range 2 * len(sessions) {
		a := <-answers
		effect := "none"
		if a.meta != nil {
			effect = "unknown"
		}
		if a.err != nil || !a.res.IsError || a.res.Meta[envelope.MetaEffect] != effect || a.took > 8*time.Second ||
			!strings.HasPrefix(words(a.res), "The bus is away, this request was not sent.") ||
			strings.Contains(words(a.res), "Nothing was done") != (effect == "none") {
			t.Errorf("after %s: %+v, %v", a.took, a.res, a.err)
		}
	}
	back := conn.NATS().StatusChanged(nats.CONNECTED)
	srv.Restart()
	<-back
	defer dispatch(t, conn, "one")() // no executor: the call ends at its deadline, which it says
	res := callNamed(t, sessions[0], "one", `{"text":"a"}`, sdk.Meta{envelope.MetaDeadlineMS: 500})
	if got := words(res); strings.Contains(got, "away") {
		t.Error(got)
	}
}

// A gateway whose bus comes later serves no tools at first, says why, and notifies its client when there are some.
func TestBusComesLater(t *testing.T) {
	srv := natstest.Start(t)
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, protocol := range protocols {
		comes := make(chan *toolbus.Client)
		door := mcp.New(t.Context(), nil, mcp.Options{
			Every: 20 * time.Millisecond, Connected: conn.NATS().IsConnected,
			Connect: func(ctx context.Context) (*toolbus.Client, error) {
				select {
				case client := <-comes:
					return client, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		})
		watching := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { defer close(watching); door.Watch(ctx) }()
		told := make(chan struct{}, 100)
		c := (&fixture{}).connect(t, door, protocol, &sdk.ClientOptions{
			ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} },
		})
		if says := c.InitializeResult().Instructions; !strings.Contains(says, "not reached yet") {
			t.Errorf("the instructions are %q", says)
		}
		if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 0 {
			t.Errorf("%+v, %v", tools, err)
		}
		if res := callNamed(t, c, "one", `{}`, nil); !strings.Contains(words(res), "was not sent") {
			t.Error(words(res))
		}
		if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "toolbus://result/a.b"}); err == nil {
			t.Error("a resource was read without a bus")
		}
		client, err := conn.Client(toolbus.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		comes <- client
		end := dispatch(t, conn, "one")
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Fatal("no notification")
		}
		if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 1 {
			t.Errorf("%+v, %v", tools, err)
		}
		stop()
		<-watching
		_ = client.Close()
		end()
	}
}
