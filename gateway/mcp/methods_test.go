package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// newLibrary returns an MCP server with resources, templates, prompts, completions and a tool that links to a resource
// which is in no list.
func newLibrary(name string) *sdk.Server { return newCountedLibrary(name, new(atomic.Int64)) }

// newCountedLibrary is newLibrary with a count of its requests for methods that pass through.
func newCountedLibrary(name string, asked *atomic.Int64) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1.0.0"}, &sdk.ServerOptions{
		PageSize: 2, Instructions: "How to use " + name + ".",
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			given := r.Params.Ref.Name + r.Params.Ref.URI + " " + r.Params.Argument.Value
			if r.Params.Context != nil {
				given += r.Params.Context.Arguments["mood"]
			}
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{name, given}, Total: 2}}, nil
		},
	})
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			switch strings.Split(method, "/")[0] {
			case "resources", "prompts", "completion":
				asked.Add(1)
			}
			return next(ctx, method, req)
		}
	})
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		if strings.HasSuffix(r.Params.URI, "/gone") {
			return nil, sdk.ResourceNotFoundError(r.Params.URI)
		}
		return &sdk.ReadResourceResult{
			Meta: sdk.Meta{"vendor/of": name},
			Contents: []*sdk.ResourceContents{
				{URI: r.Params.URI, MIMEType: "text/plain", Text: "the text of " + r.Params.URI},
				{URI: r.Params.URI + "/cover", Blob: []byte{0, 1, 255}},
			},
		}, nil
	}
	for i := range 5 {
		s.AddResource(&sdk.Resource{
			URI: fmt.Sprintf("%s://book/%d", name, i), Name: fmt.Sprint("book ", i), Title: "A book", Size: 7,
		}, read)
	}
	s.AddResource(&sdk.Resource{URI: "ui://" + name + "/app", Name: "app", MIMEType: "text/html;profile=mcp-app"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: name + "://page/{book}/{page}", Name: "page"}, read)
	prompt := func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		who := r.Params.Arguments["who"]
		if who == "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "who is missing", Data: encoded("who")}
		}
		return &sdk.GetPromptResult{Description: name, Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: "Greet " + who}},
			{Role: "assistant", Content: &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:y", Text: "z"}}},
		}}, nil
	}
	for _, called := range []string{"greet", name + "-only"} {
		s.AddPrompt(&sdk.Prompt{
			Name: called, Title: "Greet", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}},
		}, prompt)
	}
	s.AddTool(&sdk.Tool{Name: "look", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{URI: name + "://page/1/2", Name: "page"}}}, nil
		})
	return s
}

func encoded(v any) json.RawMessage {
	text, _ := json.Marshal(v) // of texts
	return text
}

// shelved serves servers over HTTP, and imports them into a folder of tools.
func shelved(t *testing.T, servers ...*sdk.Server) (urls []string, tools *toolbus.Toolset) {
	t.Helper()
	dir := t.TempDir()
	for i, s := range servers {
		web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
			&sdk.StreamableHTTPOptions{Stateless: true}))
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
		})
		urls = append(urls, web.URL)
		name := []string{"one", "two"}[i]
		r, err := importer.Import(t.Context(), name, client.Server{URL: web.URL},
			importer.Options{Dir: dir, Owner: "@test", Version: "test"})
		if err != nil || r.LeftOut() > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	tools = toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	return urls, tools
}

// seen holds the answers that a client gets, by request.
type seen map[string]any

// put records an answer without the members that belong to the connection, or an error.
func (s seen) put(what string, res any, err error) {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		s[what] = fmt.Sprintf("%d %s", wire.Code, wire.Message)
		return
	}
	if err != nil {
		s[what] = err.Error()
		return
	}
	var members map[string]any
	_ = json.Unmarshal(encoded(res), &members) // of an object
	for _, name := range []string{"cacheScope", "ttlMs", "nextCursor"} {
		delete(members, name)
	}
	meta, _ := members["_meta"].(map[string]any)
	delete(meta, "io.toolbus/ref")
	delete(meta, "io.modelcontextprotocol/serverInfo")
	if len(meta) == 0 {
		delete(members, "_meta")
	}
	s[what] = members
}

// asks sends requests of all kinds.
func asks(t *testing.T, c *sdk.ClientSession) seen {
	t.Helper()
	s, ctx := seen{}, t.Context()
	resources := &sdk.ListResourcesResult{}
	for r, err := range c.Resources(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		resources.Resources = append(resources.Resources, r)
	}
	s.put("resources", resources, nil)
	templates, err := c.ListResourceTemplates(ctx, nil)
	if err == nil && templates.ResourceTemplates[0].URITemplate == "toolbus://result/{ref}" {
		templates.ResourceTemplates = templates.ResourceTemplates[1:]
	}
	s.put("templates", templates, err)
	for _, uri := range []string{"one://book/3", "ui://one/app", "one://page/1/2", "one://page/1/gone", "far://x"} {
		res, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		s.put(uri, res, err)
	}
	prompts, err := c.ListPrompts(ctx, nil)
	s.put("prompts", prompts, err)
	for who, name := range map[string]string{"Ann": "greet", "": "greet", "Bob": "no such"} {
		res, err := c.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: map[string]string{"who": who}})
		s.put("prompt "+who+name, res, err)
	}
	for _, ref := range []sdk.CompleteReference{
		{Type: "ref/prompt", Name: "greet"}, {Type: "ref/resource", URI: "one://page/{book}/{page}"},
	} {
		res, err := c.Complete(ctx, &sdk.CompleteParams{
			Ref: &ref, Argument: sdk.CompleteParamsArgument{Name: "who", Value: "A"},
			Context: &sdk.CompleteContext{Arguments: map[string]string{"mood": "!"}},
		})
		s.put("complete "+ref.Type, res, err)
	}
	return s
}

// A client gets the resources, templates, prompts and completions of a server as it gets them without the bus, in both
// protocols and over both transports. They are not tools.
func TestWholeServer(t *testing.T) {
	urls, tools := shelved(t, newLibrary("one"))
	bus := toolbustest.Start(t, tools)
	door := mcp.New(t.Context(), bus.Client, mcp.Options{})
	web := open(t, door)
	f := &fixture{Bus: bus}
	for _, protocol := range protocols {
		direct := over(t, &httptest.Server{URL: urls[0]}, protocol, nil)
		want := asks(t, direct)
		for name, c := range map[string]*sdk.ClientSession{
			"http": over(t, web, protocol, nil), "stdio": f.connect(t, door, protocol, nil),
		} {
			if d := diff.Diff(want, asks(t, c)); d != "" {
				t.Errorf("%s, %s (-direct +through):\n%s", protocol, name, d)
			}
			has := c.InitializeResult().Capabilities
			if has.Prompts == nil || has.Completions == nil || has.Resources == nil {
				t.Errorf("%s, %s: capabilities %+v", protocol, name, has)
			}
			if got := c.InitializeResult().Instructions; !strings.Contains(got, "How to use one.") {
				t.Errorf("%s, %s: instructions %q", protocol, name, got)
			}
			lists(t, c, "one_look")
		}
	}
}

// Without servers that have them, there are neither prompts nor completions, and no capability for them.
func TestNoMethods(t *testing.T) {
	f := start(t)
	web := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	for _, protocol := range protocols {
		c := over(t, web, protocol, nil)
		if has := c.InitializeResult().Capabilities; has.Prompts != nil || has.Completions != nil {
			t.Errorf("%s: capabilities %+v", protocol, has)
		}
		_, err := c.ListPrompts(t.Context(), nil)
		wantCode(t, err, jsonrpc.CodeMethodNotFound)
		_, err = c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "far://x"})
		wantCode(t, err, notFound(protocol))
		templates, err := c.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 1 {
			t.Errorf("%s: %+v, %v", protocol, templates, err)
		}
	}
}

// notFound returns the code for a resource that does not exist.
func notFound(protocol string) int64 {
	if protocol >= "2026-07-28" {
		return jsonrpc.CodeInvalidParams
	}
	return -32002
}

// Several servers are one: lists are merged and paged, prompts with one name have the names of their servers in front,
// and a request reaches the server that has what it names.
func TestWholeServers(t *testing.T) {
	_, tools := shelved(t, newLibrary("one"), newLibrary("two"))
	bus := toolbustest.Start(t, tools)
	web := open(t, mcp.New(t.Context(), bus.Client, mcp.Options{PageSize: 3}))
	for _, protocol := range protocols {
		c := over(t, web, protocol, nil)
		var all []string
		for r, err := range c.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.URI)
		}
		for p, err := range c.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p.Name)
		}
		want := "one://book/0 one://book/1 one://book/2 one://book/3 one://book/4 ui://one/app " +
			"two://book/0 two://book/1 two://book/2 two://book/3 two://book/4 ui://two/app " +
			"one_greet one-only two_greet two-only"
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%s: %s", protocol, got)
		}
		for _, uri := range []string{"two://book/3", "two://page/1/2", "ui://two/app"} {
			res, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
			if err != nil || res.Meta["vendor/of"] != "two" {
				t.Fatalf("%s: %s: %+v, %v", protocol, uri, res, err)
			}
			ref, _ := res.Meta[envelope.MetaRef].(string)
			if of, err := bus.Client.Result(t.Context(), envelope.CallRef{Ref: ref}); err != nil || of.Output == nil {
				t.Errorf("%s: the call %q of %s: %+v, %v", protocol, ref, uri, of, err)
			}
		}
		_, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "far://x"})
		wantCode(t, err, notFound(protocol))
		said, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{
			Name: "two_greet", Arguments: map[string]string{"who": "Ann"},
		})
		if err != nil || said.Description != "two" {
			t.Errorf("%s: %+v, %v", protocol, said, err)
		}
		_, err = c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet"})
		wantCode(t, err, jsonrpc.CodeInvalidParams)
		for _, ref := range []sdk.CompleteReference{
			{Type: "ref/prompt", Name: "two_greet"}, {Type: "ref/resource", URI: "two://page/{book}/{page}"},
		} {
			done, err := c.Complete(t.Context(), &sdk.CompleteParams{
				Ref: &ref, Argument: sdk.CompleteParamsArgument{Name: "who"},
			})
			if err != nil || done.Completion.Values[0] != "two" || strings.Contains(done.Completion.Values[1], "two_") {
				t.Errorf("%s: %s: %+v, %v", protocol, ref.Type, done, err)
			}
		}
	}
}

// A server that the policy hides from a caller is neither listed nor read for it. Each read is on record.
func TestWholeServersPolicy(t *testing.T) {
	var hidden atomic.Int64
	_, tools := shelved(t, newLibrary("one"), newCountedLibrary("two", &hidden))
	w := wall(t, tools)
	operator := w.operator()
	before, err := operator.PolicyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entry := func(id string) string {
		return "  - {tool_name: '" + id + "', description: d, enabled: true, idempotent: true, timeout_default_ms: 30000, " +
			"allowed_lanes: [default], required_scope_keys: [], prohibited_flags: [], " +
			"unsanitized: [/properties/uri, /properties/ref/properties/uri]}\n"
	}
	if _, err := operator.PushPolicy(t.Context(), admin.Policy{
		Roles:        []byte("roles: [{role_id: agent, allowed_lanes: [default]}]"),
		Lanes:        []byte("lanes: [{lane_id: default, allowed_tools: ['mcp::one::protocol'], runs: implicit}]"),
		ToolRegistry: []byte("tools:\n" + entry("mcp::one::protocol") + entry("mcp::two::protocol")),
	}, before[0].Revision, ""); err != nil {
		t.Fatal(err)
	}
	web := open(t, w.server(mcp.Options{}))
	for _, protocol := range protocols {
		c := as(t, web, protocol, w.token("ann", "agent://ann", auth.Agent, ""))
		for begun := time.Now(); ; {
			listed, err := c.ListPrompts(t.Context(), nil)
			if err == nil && len(listed.Prompts) == 2 && listed.Prompts[0].Name == "greet" {
				break
			}
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("%s: %+v, %v", protocol, listed, err)
			}
		}
		_, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "two://book/1"})
		if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInvalidParams &&
			wire.Code != notFound(protocol) {
			t.Errorf("%s: a hidden resource: %v", protocol, err)
		}
		res, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "one://book/1"})
		if err != nil || res.Meta["io.toolbus/ref"] == nil {
			t.Errorf("%s: %+v, %v", protocol, res, err)
		}
		for r, err := range c.Resources(t.Context(), nil) {
			if err != nil || strings.Contains(r.URI, "two") {
				t.Errorf("%s: %+v, %v", protocol, r, err)
			}
		}
	}
	if n := hidden.Load(); n != 0 {
		t.Errorf("%d requests have reached the hidden server", n)
	}
}

// A call of a method that the caller makes itself has the same policy: its tool does not exist for MCP clients.
func TestMethodsAreNotTools(t *testing.T) {
	_, tools := shelved(t, newLibrary("one"))
	web := open(t, mcp.New(t.Context(), toolbustest.Start(t, tools).Client, mcp.Options{Search: mcp.Search{Above: 1}}))
	for _, protocol := range protocols {
		c := over(t, web, protocol, nil)
		lists(t, c, "one_look")
		for _, name := range []string{
			"mcp::one::protocol", "mcp::one::protocol.prompts_list", "mcp__one__protocol_prompts_list",
		} {
			_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: struct{}{}})
			wantCode(t, err, jsonrpc.CodeInvalidParams)
		}
	}
}

// A client that was there before the bus is notified of its resources and prompts.
func TestListsChanged(t *testing.T) {
	_, tools := shelved(t, newLibrary("one"))
	bus := toolbustest.Start(t, tools)
	for _, protocol := range protocols {
		comes := make(chan *toolbus.Client)
		door := mcp.New(t.Context(), nil, mcp.Options{
			Every: 20 * time.Millisecond, Connect: func(ctx context.Context) (*toolbus.Client, error) {
				select {
				case client := <-comes:
					return client, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		watching := make(chan struct{})
		go func() { defer close(watching); door.Watch(ctx) }()
		prompts, resources := make(chan struct{}, 100), make(chan struct{}, 100)
		c := (&fixture{}).connect(t, door, protocol, &sdk.ClientOptions{
			PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { prompts <- struct{}{} },
			ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { resources <- struct{}{} },
		})
		if listed, err := c.ListPrompts(t.Context(), nil); err != nil || len(listed.Prompts) != 0 {
			t.Errorf("%s: %+v, %v", protocol, listed, err)
		}
		comes <- bus.Client
		for _, told := range []chan struct{}{prompts, resources} {
			select {
			case <-told:
			case <-time.After(30 * time.Second):
				t.Fatal(protocol, "no notification")
			}
		}
		if listed, err := c.ListPrompts(t.Context(), nil); err != nil || len(listed.Prompts) != 2 {
			t.Errorf("%s: %+v, %v", protocol, listed, err)
		}
		stop()
		<-watching
	}
}

// A change that a server announces reaches clients of the gateway.
func TestServerChangesLists(t *testing.T) {
	server := newLibrary("one")
	_, tools := shelved(t, server)
	bus := toolbustest.Start(t, tools)
	door := mcp.New(t.Context(), bus.Client, mcp.Options{Every: 20 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan struct{})
	go func() { defer close(watching); door.Watch(ctx) }()
	defer func() { stop(); <-watching }()
	for n, protocol := range protocols {
		told := make(chan struct{}, 100)
		c := (&fixture{}).connect(t, door, protocol, &sdk.ClientOptions{
			PromptListChangedHandler: func(context.Context, *sdk.PromptListChangedRequest) { told <- struct{}{} },
		})
		if listed, err := c.ListPrompts(t.Context(), nil); err != nil || len(listed.Prompts) != 2+n {
			t.Fatalf("%s: %+v, %v", protocol, listed, err)
		}
		server.AddPrompt(&sdk.Prompt{Name: "more " + protocol}, nil)
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Fatal(protocol, "no notification")
		}
		if listed, err := c.ListPrompts(t.Context(), nil); err != nil || len(listed.Prompts) != 3+n {
			t.Errorf("%s: %+v, %v", protocol, listed, err)
		}
	}
}

// A prompt or a resource whose server asks for input is asked again with the answer of the client. A client that cannot
// answer gets an error.
func TestMethodAsks(t *testing.T) {
	server := newLibrary("one")
	question := func(state string) (sdk.InputRequestMap, string) {
		return sdk.InputRequestMap{"q": &sdk.ElicitParams{
			Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		}}, state
	}
	named := func(responses sdk.InputResponseMap, state string) string {
		answer, _ := responses["q"].(*sdk.ElicitResult)
		if answer == nil {
			return ""
		}
		return fmt.Sprint(answer.Content["name"], " ", state)
	}
	server.AddPrompt(&sdk.Prompt{Name: "ask"},
		func(_ context.Context, r *sdk.GetPromptRequest) (res *sdk.GetPromptResult, err error) {
			res = &sdk.GetPromptResult{Description: named(r.Params.InputResponses, r.Params.RequestState)}
			if res.Description == "" {
				res.InputRequests, res.RequestState = question("state of a prompt")
			}
			return res, nil
		})
	server.AddResource(&sdk.Resource{URI: "one://ask", Name: "ask"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (res *sdk.ReadResourceResult, err error) {
			res = &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
				{URI: "one://ask", Text: named(r.Params.InputResponses, r.Params.RequestState)},
			}}
			if res.Contents[0].Text == "" {
				res.Contents = nil
				res.InputRequests, res.RequestState = question("state of a resource")
			}
			return res, nil
		})
	_, tools := shelved(t, server, newLibrary("two"))
	web := open(t, mcp.New(t.Context(), toolbustest.Start(t, tools).Client, mcp.Options{}))
	answers := over(t, web, protocols[0], &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
	})
	prompt, err := answers.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "ask"})
	if err != nil || prompt.Description != "Ada state of a prompt" {
		t.Errorf("%+v, %v", prompt, err)
	}
	read, err := answers.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "one://ask"})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "Ada state of a resource" {
		t.Errorf("%+v, %v", read, err)
	}
	for _, protocol := range protocols {
		c := over(t, web, protocol, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
		_, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "ask"})
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || wire.Code != jsonrpc.CodeInternalError || !strings.Contains(string(wire.Data), "P-PRECOND-INPUT_REQUIRED") {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
