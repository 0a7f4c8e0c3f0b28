package mcpservers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// clerk is a server that asks twice before it files something.
type clerk struct {
	calls, filed atomic.Int64
	able         atomic.Pointer[string] // what the client of the last call can be asked for
}

// The states of a clerk, which come back with the answers.
const (
	named = "which-name"
	sure  = "is-it-sure:"
)

func (c *clerk) file(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	c.calls.Add(1)
	able := fmt.Sprint(req.Params.Meta[sdk.MetaKeyClientCapabilities])
	c.able.Store(&able)
	asks := func(state, message string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{RequestState: state, InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{
			Message: message, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		}}}, nil
	}
	answer, _ := req.Params.InputResponses["q"].(*sdk.ElicitResult)
	state, name := req.Params.RequestState, ""
	if answer != nil {
		name, _ = answer.Content["name"].(string)
	}
	switch {
	case state == "":
		return asks(named, "Under which name?")
	case state == named && answer != nil && name != "":
		return asks(sure+name, "Really as "+name+"?")
	case strings.HasPrefix(state, sure) && answer != nil && answer.Action == "accept":
		c.filed.Add(1)
		text := "filed as " + strings.TrimPrefix(state, sure)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "nothing was filed"}}}, nil
}

// office is a bus with a clerk, whose tools are file and shred.
func office(t *testing.T) (*clerk, *bus) {
	t.Helper()
	c := &clerk{}
	server := sdk.NewServer(&sdk.Implementation{Name: "clerk", Version: "1.0.0"}, nil)
	for _, name := range []string{"file", "shred"} {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, c.file)
	}
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	i := newImporter(t)
	i.adds("clerk", client.Server{URL: h.URL})
	return c, i.bus()
}

const filing = `{"page":1}`

// accepts is the answer to the questions of a clerk.
const accepts = `{"q":{"action":"accept","content":{"name":"Ada"}}}`

// answers returns the call that answers a question with the given state.
func answers(state, key string) toolbus.Call {
	return toolbus.Call{Tool: "mcp::clerk::file", Input: jsontext.Value(filing), Key: key,
		Context: envelope.RequestContext{MCPInput: &envelope.MCPInput{State: state, Responses: jsontext.Value(accepts)}}}
}

// asked returns the question in an outcome.
func asked(t *testing.T, r *envelope.Response, message string) envelope.InputQuestion {
	t.Helper()
	q, ok := r.Error.Question()
	if !ok || r.Status != envelope.TerminalError || r.Error.Details.Effect != envelope.EffectUnknown ||
		!strings.Contains(string(q.Requests), message) || !strings.Contains(r.Error.Message, message) {
		t.Fatalf("%s: %v, %+v", r.Status, r.Error, q)
	}
	return q
}

// TestAsksTwice answers the questions of a server over the bus: each answer is a call, and the last one has the effect,
// once.
func TestAsksTwice(t *testing.T) {
	c, b := office(t)
	first := asked(t, b.asks(toolbus.Call{Tool: "mcp::clerk::file", Input: jsontext.Value(filing)}), "Under which name?")
	second := asked(t, b.asks(answers(first.State, "key-of-the-answer-1")), "Really as Ada?")
	if second.ServerState != sure+"Ada" || second.State == first.State {
		t.Errorf("%+v", second)
	}
	for n := range 2 {
		r := b.asks(answers(second.State, "key-of-the-answer-2"))
		if r.Status != envelope.Success || textOf(t, r) != "filed as Ada" || r.Provenance.Replayed != (n > 0) {
			t.Errorf("%v: %s", r.Error, r.Output)
		}
	}
	another := answers(second.State, "key-of-the-answer-2")
	another.Context.MCPInput.Responses = jsontext.Value(`{"q":{"action":"decline"}}`)
	if r := b.asks(another); r.Error == nil || r.Error.Code != envelope.CodeKeyReused {
		t.Errorf("another answer under the key of the first: %v", r.Error)
	}
	if c.filed.Load() != 1 || c.calls.Load() != 3 {
		t.Errorf("filed %d times in %d calls", c.filed.Load(), c.calls.Load())
	}
}

// TestStateOfAnother answers with states that are not of a question to this caller, by this tool, about this input. The
// server hears of none of them.
func TestStateOfAnother(t *testing.T) {
	c, b := office(t)
	other, err := b.Conn.Client(toolbus.ClientOptions{Actor: "agent://other"})
	if err != nil {
		t.Fatal(err)
	}
	mine := asked(t, b.asks(toolbus.Call{Tool: "mcp::clerk::file", Input: jsontext.Value(filing)}), "name")
	really := asked(t, b.asks(answers(mine.State, "")), "Really")
	done := b.asks(answers(really.State, "key-of-what-is-done"))
	theirs, err := toolbus.Outcome(other.Call(t.Context(), toolbus.Call{
		Tool: "mcp::clerk::file", Input: jsontext.Value(filing)}))
	if err != nil {
		t.Fatal(err)
	}
	of := asked(t, theirs, "name")
	shredding := asked(t, b.asks(toolbus.Call{Tool: "mcp::clerk::shred", Input: jsontext.Value(filing)}), "name")
	if done.Status != envelope.Success {
		t.Fatal(done.Error)
	}
	before := c.calls.Load()
	for name, edit := range map[string]func(*toolbus.Call){
		"of another actor":   func(q *toolbus.Call) { q.Context.MCPInput.State = of.State },
		"of another tool":    func(q *toolbus.Call) { q.Context.MCPInput.State = shredding.State },
		"for another tool":   func(q *toolbus.Call) { q.Tool = "mcp::clerk::shred" },
		"for another input":  func(q *toolbus.Call) { q.Input = jsontext.Value(`{"page":2}`) },
		"changed":            func(q *toolbus.Call) { q.Context.MCPInput.State = flipped(mine.State) },
		"of the server":      func(q *toolbus.Call) { q.Context.MCPInput.State = mine.ServerState },
		"the tool of it":     func(q *toolbus.Call) { q.Context.MCPInput.State = "x" + mine.State },
		"of a call that did": func(q *toolbus.Call) { q.Context.MCPInput.State = refOf(b, "key-of-what-is-done") },
	} {
		call := answers(mine.State, "")
		edit(&call)
		r := b.asks(call)
		if r.Error == nil || r.Error.Code != envelope.CodeInputState || r.Status != envelope.InvalidRequest ||
			r.Error.Details.Effect != envelope.EffectNone {
			t.Errorf("%s: %s %v", name, r.Status, r.Error)
		}
	}
	if c.calls.Load() != before {
		t.Errorf("the server was called %d times", c.calls.Load()-before)
	}
	wrong := answers(mine.State, "")
	wrong.Context.MCPInput.Responses = jsontext.Value(`{"q":{"what":1}}`)
	if r := b.asks(wrong); r.Error == nil || r.Error.Code != "I-REQ-REQUEST_REFUSED" || c.calls.Load() != before {
		t.Errorf("responses that are none: %v", r.Error)
	}
	if asked(t, b.asks(answers(mine.State, "")), "Really as Ada?"); c.calls.Load() != before+1 {
		t.Error("the right state did not reach the server")
	}
	asked(t, b.asks(answers("", "")), "Under which name?") // without a state, as if it had not been asked
}

// refOf returns the reference of the call under a key.
func refOf(b *bus, key string) string {
	o := b.Client.Options()
	return subjects.Key{Tool: "mcp::clerk::file", ID: envelope.CallKeyID(o.Tenant, &envelope.Request{
		ToolID: "mcp::clerk::file", Fn: envelope.DefaultFunction, Context: envelope.RequestContext{ActorID: o.Actor},
		Constraints: envelope.Constraints{IdempotencyKey: key},
	})}.Ref()
}

// flipped returns a reference with another last character.
func flipped(ref string) string {
	last := "0"
	if strings.HasSuffix(ref, last) {
		last = "1"
	}
	return ref[:len(ref)-1] + last
}

// TestCommandAnswers answers on the command line what the command prints.
func TestCommandAnswers(t *testing.T) {
	c, b := office(t)
	program := filepath.Join(t.TempDir(), "toolbus")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/toolbus").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	call := func(more ...string) string {
		args := []string{"call", "mcp::clerk::file", "--input", filing, "--server", b.URL}
		out, _ := exec.CommandContext(t.Context(), program, append(args, more...)...).CombinedOutput() // see the text
		return string(out)
	}
	var answer []string
	for _, message := range []string{"the tool asks: Under which name?", "the tool asks: Really as Ada?", "filed as Ada"} {
		said := call(answer...)
		if !strings.Contains(said, message) {
			t.Fatalf("want %q: %s", message, said)
		}
		_, after, _ := strings.Cut(said, "--answer-to ")
		ref, _, _ := strings.Cut(after, " ")
		answer = []string{"--answer", accepts, "--answer-to", ref}
	}
	if c.filed.Load() != 1 {
		t.Errorf("filed %d times", c.filed.Load())
	}
}

// TestDoorAsks lets clients of the door answer: one that can gets the questions, and others get them as text.
func TestDoorAsks(t *testing.T) {
	c, b := office(t)
	door := mcp.New(t.Context(), b.Client, mcp.Options{Search: mcp.Search{Above: -1}})
	defer door.Close()
	h := httptest.NewServer(door.Handler())
	defer h.Close()
	defer h.CloseClientConnections()
	elicit := func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
	}
	call := func(protocol string, o *sdk.ClientOptions, meta sdk.Meta) *sdk.CallToolResult {
		t.Helper()
		session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: h.URL + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{
			Name: "clerk_file", Arguments: json.RawMessage(filing), Meta: meta})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, meta := range []sdk.Meta{{}, {envelope.MetaIdempotencyKey: "one-key-for-all-rounds"}} {
		before := c.filed.Load()
		res := call("2026-07-28", &sdk.ClientOptions{ElicitationHandler: elicit}, meta)
		if said := text(t, res); res.IsError || !strings.Contains(said, "filed as Ada") || c.filed.Load() != before+1 {
			t.Errorf("%v: %s, filed %d", meta, said, c.filed.Load()-before)
		}
		if able := *c.able.Load(); able != "map[elicitation:map[form:map[]] roots:map[listChanged:true]]" {
			t.Errorf("the server heard of %s", able)
		}
	}
	for protocol, o := range map[string]*sdk.ClientOptions{
		"2026-07-28": {Capabilities: &sdk.ClientCapabilities{}}, "2025-11-25": {ElicitationHandler: elicit},
	} {
		res := call(protocol, o, nil)
		if said := text(t, res); !res.IsError || !strings.Contains(said, "Under which name?") ||
			!strings.Contains(said, "elicitation/create") || !strings.Contains(said, "requestedSchema") {
			t.Errorf("%s: %s", protocol, said)
		}
	}
	if able := *c.able.Load(); able != "map[]" {
		t.Errorf("of a client that cannot answer the server heard %s", able)
	}
}

// TestForgedAtTheDoor sends a state to the door that it never gave away.
func TestForgedAtTheDoor(t *testing.T) {
	c, b := office(t)
	door := mcp.New(t.Context(), b.Client, mcp.Options{})
	defer door.Close()
	h := httptest.NewServer(door.Handler())
	defer h.Close()
	defer h.CloseClientConnections()
	ask := func(more string) string {
		t.Helper()
		answer, _ := post(t, h.URL, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"clerk_file",`+
			`"arguments":`+filing+more+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, http.Header{
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"clerk_file"}})
		return answer
	}
	var first struct {
		Result struct {
			ResultType   string         `json:"resultType"`
			Requests     jsontext.Value `json:"inputRequests"`
			RequestState string         `json:"requestState"`
			Content      jsontext.Value `json:"content"`
			IsError      bool           `json:"isError"`
		} `json:"result"`
	}
	said := ask("")
	if err := json.Unmarshal([]byte(said), &first); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	is := first.Result
	if is.ResultType != "input_required" || is.Content != nil || is.IsError || strings.Contains(said, named) ||
		!strings.Contains(string(is.Requests), "Under which name?") {
		t.Errorf("%s", said)
	}
	before := c.calls.Load()
	for _, state := range []string{named, flipped(is.RequestState)} {
		said := ask(`,"inputResponses":` + accepts + `,"requestState":"` + state + `"`)
		if !strings.Contains(said, "-32602") {
			t.Errorf("%s: %s", state, said)
		}
	}
	if c.calls.Load() != before {
		t.Errorf("the server was called %d times", c.calls.Load()-before)
	}
	for range 2 { // sent again, it is the same call
		said = ask(`,"inputResponses":` + accepts + `,"requestState":"` + is.RequestState + `"`)
		if !strings.Contains(said, "Really as Ada?") || c.calls.Load() != before+1 {
			t.Errorf("%d calls: %s", c.calls.Load()-before, said)
		}
	}
}
