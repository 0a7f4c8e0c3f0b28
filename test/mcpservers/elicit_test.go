package mcpservers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

const form = `{"type":"object","properties":{"day":{"type":"string"}},"required":["day"]}`

// serveAsking is a server of 2025-11-25, whose tool book asks for a day in the middle of a call.
func serveAsking() int {
	s := sdk.NewServer(&sdk.Implementation{Name: "asking", Version: "1.0.0"}, nil)
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "server/discover" { // not known in 2025
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "unknown"}
			}
			return next(ctx, method, req)
		}
	})
	s.AddTool(&sdk.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			answer, err := req.Session.Elicit(ctx, &sdk.ElicitParams{
				Message: "Which day?", RequestedSchema: json.RawMessage(form)})
			said := fmt.Sprintf("refused: %v", err)
			if err == nil {
				said = fmt.Sprintf("%s %v", answer.Action, answer.Content["day"])
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said}}}, nil
		})
	if s.Run(context.Background(), &sdk.StdioTransport{}) != nil {
		return 1
	}
	return 0
}

// reserving is a bus with a server that asks, and a door to it over HTTP. A call waits wait ms for answers.
func reserving(t *testing.T, wait int64) (b *bus, url string) {
	t.Helper()
	b, door := reservingAt(t, wait)
	return b, door.URL + "/mcp"
}

func reservingAt(t *testing.T, wait int64) (*bus, *httptest.Server) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	i := newImporter(t)
	i.adds("asking", client.Server{Command: self, Args: []string{"asking"}, ElicitMS: wait})
	b := i.bus()
	door := mcp.New(t.Context(), b.Client, mcp.Options{Search: mcp.Search{Above: -1}})
	t.Cleanup(door.Close)
	h := httptest.NewServer(door.Handler())
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	return b, h
}

type handler = func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error)

// books calls the tool for a client of the door with the handler given, which may be nil.
func books(t *testing.T, over sdk.Transport, protocol string, ask handler) string {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"},
		&sdk.ClientOptions{ElicitationHandler: ask, Capabilities: &sdk.ClientCapabilities{}}).
		Connect(t.Context(), over, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "asking_book", Arguments: json.RawMessage(`{}`)})
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("%v, %v", err, res)
	}
	said, _ := res.Content[0].(*sdk.TextContent)
	return said.Text
}

const refused = "client does not support elicitation"

// TestElicits asks clients of the door in the middle of calls. If a client cannot be asked, or its answer is
// too large, the server hears the refusal of the SDK.
func TestElicits(t *testing.T) {
	_, url := reserving(t, 10_000)
	says := func(action, day string) handler {
		return func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if got := string(encode(t, req.Params.RequestedSchema)); req.Params.Message != "Which day?" ||
				req.Params.Mode != "form" || !strings.Contains(got, `"day"`) {
				t.Errorf("it asks %+v with %s", req.Params, got)
			}
			res := &sdk.ElicitResult{Action: action}
			if day != "" {
				res.Content = map[string]any{"day": day}
			}
			return res, nil
		}
	}
	fails := func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return nil, io.EOF }
	for name, c := range map[string]struct {
		protocol string
		ask      handler
		want     string
	}{
		"accepts":        {"2025-11-25", says("accept", "Monday"), "accept Monday"},
		"accepts, older": {"2025-06-18", says("accept", "Friday"), "accept Friday"},
		"declines":       {"2025-11-25", says("decline", ""), "decline <nil>"},
		"cancels":        {"2025-11-25", says("cancel", ""), "cancel <nil>"},
		"too large":      {"2025-11-25", says("accept", strings.Repeat("x", 70_000)), refused},
		"fails":          {"2025-11-25", fails, refused},
		"not able":       {"2025-11-25", nil, refused},
		"of 2026":        {"2026-07-28", says("accept", "Monday"), refused},
	} {
		t.Run(name, func(t *testing.T) {
			got := books(t, &sdk.StreamableClientTransport{Endpoint: url}, c.protocol, c.ask)
			if !strings.Contains(got, c.want) {
				t.Errorf("got %.200s, want %s", got, c.want)
			}
		})
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestElicitsOverPipes does the same with a client of the door over stdio.
func TestElicitsOverPipes(t *testing.T) {
	b, _ := reserving(t, 10_000)
	door := mcp.New(t.Context(), b.Client, mcp.Options{Search: mcp.Search{Above: -1}})
	defer door.Close()
	toDoor, fromClient := io.Pipe()
	toClient, fromDoor := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- door.Serve(t.Context(), toDoor, fromDoor) }()
	got := books(t, &sdk.IOTransport{Reader: toClient, Writer: fromClient}, "2025-11-25",
		func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"day": "Sunday"}}, nil
		})
	if got != "accept Sunday" {
		t.Error(got)
	}
	_ = fromClient.Close()
	<-served
}

// TestElicitsInVain has a client that does not answer, until it is asked no more.
func TestElicitsInVain(t *testing.T) {
	_, url := reserving(t, 300)
	withdrawn := make(chan error, 1)
	got := books(t, &sdk.StreamableClientTransport{Endpoint: url}, "2025-11-25",
		func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			<-ctx.Done()
			withdrawn <- ctx.Err()
			return nil, ctx.Err()
		})
	if !strings.Contains(got, refused) {
		t.Error(got)
	}
	if err := <-withdrawn; err == nil {
		t.Error("the client is asked without end")
	}
}

// TestLeavesWhileAsked has a client that goes away when it is asked: the server does not wait for it.
func TestLeavesWhileAsked(t *testing.T) {
	b, h := reservingAt(t, 30_000)
	const key = "key-of-a-client-that-leaves"
	began := time.Now()
	gone, end := make(chan struct{}), make(chan struct{})
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			close(gone)
			<-end
			return nil, context.Canceled
		},
	}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: h.URL + "/mcp", MaxRetries: -1},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	defer close(end)
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-gone; leave() }()
	if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "asking_book", Arguments: json.RawMessage(`{}`),
		Meta: sdk.Meta{envelope.MetaIdempotencyKey: key}}); err == nil {
		t.Error("the client did not leave")
	}
	r := b.asks(toolbus.Call{Tool: "mcp::asking::book", Input: jsontext.Value(`{}`), Key: key})
	if took := time.Since(began); !strings.Contains(textOf(t, r), refused) || took > 20*time.Second {
		t.Errorf("%s %v after %v", r.Output, r.Error, took)
	}
}

// open makes a call that asks, and returns its question and where its outcome will be.
func open(t *testing.T, b *bus, key string) (q envelope.AnswerRequest, ended chan *envelope.Response) {
	t.Helper()
	asks, refs := make(chan string, 1), make(chan string, 1)
	ended = make(chan *envelope.Response, 1)
	go func() {
		r, err := toolbus.Outcome(b.Client.Call(t.Context(), toolbus.Call{
			Tool: "mcp::asking::book", Input: jsontext.Value(`{}`), Key: key,
			Context:    envelope.RequestContext{MCPInput: &envelope.MCPInput{Elicits: true}},
			OnAccepted: func(a envelope.Accepted) { refs <- a.Ref },
			OnChunk: func(c envelope.Chunk) error {
				if q := envelope.QuestionOf(c); q != nil && q.Params != nil {
					asks <- q.ID
				}
				return nil
			},
		}))
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	return envelope.AnswerRequest{Ref: <-refs, Question: <-asks, Result: answerOf("Monday")}, ended
}

func answerOf(day string) jsontext.Value {
	return jsontext.Value(`{"action":"accept","content":{"day":"` + day + `"}}`)
}

// TestAnswersOfOthers answers questions for another caller, with another id, twice, and after the end.
func TestAnswersOfOthers(t *testing.T) {
	b, _ := reserving(t, 30_000)
	other, err := b.Conn.Client(toolbus.ClientOptions{Actor: "agent://other"})
	if err != nil {
		t.Fatal(err)
	}
	q, ended := open(t, b, "key-of-the-first-call")
	foreign := q
	foreign.Result = answerOf("never")
	if err := other.Answer(t.Context(), foreign); codeOf(err) != envelope.CodeNotFound {
		t.Errorf("the answer of another caller: %v", err)
	}
	elsewhere := foreign
	elsewhere.Question = "abcdef"
	if err := b.Client.Answer(t.Context(), elsewhere); err != nil {
		t.Errorf("an answer to no question: %v", err) // it has no effect
	}
	for _, bad := range []string{"", "a.b", "*", strings.Repeat("x", 200)} {
		elsewhere.Question = bad
		if err := b.Client.Answer(t.Context(), elsewhere); codeOf(err) != envelope.CodeInputState {
			t.Errorf("an answer to %q: %v", bad, err)
		}
	}
	large := foreign
	large.Result = answerOf(strings.Repeat("x", envelope.MaxOpenAnswer))
	if err := b.Client.Answer(t.Context(), large); codeOf(err) != envelope.CodeLimit {
		t.Errorf("a large answer: %v", err)
	}
	if err := b.Client.Answer(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	_ = b.Client.Answer(t.Context(), foreign) // the second one has no effect, or comes after the end
	if r := <-ended; textOf(t, r) != "accept Monday" || len(r.Warnings) != 1 ||
		r.Warnings[0] != envelope.MetaAsked+"1; answers: 1" {
		t.Errorf("%s %q", r.Output, r.Warnings)
	}
	if err := b.Client.Answer(t.Context(), q); codeOf(err) != envelope.CodeInputState {
		t.Errorf("an answer after the end: %v", err)
	}
}

func codeOf(err error) envelope.Code {
	if refused, ok := err.(*toolbus.Error); ok {
		return refused.Code()
	}
	return ""
}

// TestElicitsOne refuses the question while two calls are open, because it may be of either.
func TestElicitsOne(t *testing.T) {
	b, _ := reserving(t, 30_000)
	q, ended := open(t, b, "key-of-the-first-call")
	var asked atomic.Int64
	r, err := toolbus.Outcome(b.Client.Call(t.Context(), toolbus.Call{
		Tool: "mcp::asking::book", Input: jsontext.Value(`{}`),
		Context: envelope.RequestContext{MCPInput: &envelope.MCPInput{Elicits: true}},
		OnChunk: func(envelope.Chunk) error { asked.Add(1); return nil },
	}))
	if err != nil || !strings.Contains(textOf(t, r), refused) || asked.Load() > 0 {
		t.Errorf("%v, %v, asked %d", err, r, asked.Load())
	}
	if err := b.Client.Answer(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if r := <-ended; textOf(t, r) != "accept Monday" {
		t.Errorf("%s", r.Output)
	}
}
