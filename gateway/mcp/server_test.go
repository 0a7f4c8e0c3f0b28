package mcp_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// each runs a test in every protocol.
func each(
	t *testing.T,
	door *mcp.Server,
	f *fixture,
	o *sdk.ClientOptions,
	test func(t *testing.T, s *sdk.ClientSession),
) {
	t.Helper()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			s := f.connect(t, door, protocol, o)
			if got := s.InitializeResult().ProtocolVersion; got != protocol {
				t.Fatalf("speaks %s", got)
			}
			test(t, s)
		})
	}
}

func TestList(t *testing.T) {
	f := start(t, toolbus.Tool{ID: "local::two", Function: "one", Class: toolbus.Pure},
		toolbus.Tool{ID: "local::two", Function: "other", Class: toolbus.Pure, FunctionDescription: "The other."})
	door := mcp.New(t.Context(), f.Client, mcp.Options{PageSize: 3})
	each(t, door, f, nil, func(t *testing.T, s *sdk.ClientSession) {
		var names []string
		tools := map[string]*sdk.Tool{}
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
			tools[tool.Name] = tool
		}
		if want := 7; len(names) != want || !slices.IsSorted(names) {
			t.Errorf("listed %q", names)
		}
		if a := tools["send"].Annotations; a.ReadOnlyHint || a.DestructiveHint == nil || !*a.DestructiveHint {
			t.Errorf("annotations of send: %+v", a)
		}
		if a := tools["echo"].Annotations; !a.ReadOnlyHint {
			t.Errorf("annotations of echo: %+v", a)
		}
		if tools["echo"].OutputSchema == nil || tools["echo"].Title != "Echo" {
			t.Errorf("echo: %+v", tools["echo"])
		}
		compiles(t, tools)
		if tools["local__two_other"] == nil || tools["local__two_other"].Description != "The other." {
			t.Fatalf("no second function in %q", names)
		}
		for _, name := range []string{"local__two_other", "local::two.other"} { // the second is of an older door
			if got := words(callNamed(t, s, name, `{"text":"b"}`, nil)); got != `{"text":"b"}` {
				t.Error(got)
			}
		}
		_, err := s.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: "!"})
		wantCode(t, err, jsonrpc.CodeInvalidParams)
	})
}

// compiles compiles the schemas of tools with no loader, and wants those of inputs to be of objects.
func compiles(t *testing.T, tools map[string]*sdk.Tool) {
	t.Helper()
	for name, tool := range tools {
		if !regexp.MustCompile(`^[a-zA-Z0-9_-]{1,48}$`).MatchString(name) {
			t.Errorf("%q is a name that APIs of models refuse", name)
		}
		for what, of := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			if of == nil {
				t.Errorf("%s has no %s schema", name, what)
				continue
			}
			if top, _ := of.(map[string]any); what == "input" && top["type"] != "object" {
				t.Errorf("the arguments of %s are no object: %v", name, of)
			}
			c := jsonschema.NewCompiler()
			err := c.AddResource("test:schema", of)
			if err == nil {
				_, err = c.Compile("test:schema")
			}
			if err != nil {
				t.Errorf("%s schema of %s: %v", what, name, err)
			}
		}
	}
}

func wantCode(t *testing.T, err error, code int64) {
	t.Helper()
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != code {
		t.Errorf("got %v, want a protocol error %d", err, code)
	}
}

func TestCall(t *testing.T) {
	f := start(t)
	operator, err := admin.Connect(t.Context(), f.URL, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	if _, err := operator.StartRun(t.Context(), envelope.RunStartRequest{
		ID: "r1", Actors: []string{toolbus.DefaultActor},
	}); err != nil {
		t.Fatal(err)
	}
	each(t, mcp.New(t.Context(), f.Client, mcp.Options{}), f, nil, func(t *testing.T, s *sdk.ClientSession) {
		res := callNamed(t, s, "echo", `{"text":"hello"}`, nil)
		if res.IsError || words(res) != `{"text":"hello"}` || structured(t, res) != `{"text":"hello"}` {
			t.Errorf("%+v: %s", res, words(res))
		}
		delete(res.Meta, sdk.MetaKeyServerInfo)
		if ref, _ := res.Meta[envelope.MetaRef].(string); len(res.Meta) != 1 || !strings.HasPrefix(ref, "echo.") {
			t.Errorf("_meta %v of a request that wants no report", res.Meta)
		}
		res = callNamed(t, s, "echo", `{"text":"hello"}`, sdk.Meta{envelope.MetaReport: true})
		if res.Meta[envelope.MetaOutcome] != "success" || res.Meta[envelope.MetaCallID] == "" ||
			res.Meta[envelope.MetaToolVersion] != "0.1.0" {
			t.Errorf("_meta %v of a request that wants a report", res.Meta)
		}
		for name, says := range map[string]string{
			envelope.MetaRef: "echo.", envelope.MetaAuditEventID: "calls", envelope.MetaRunID: "r1",
			envelope.MetaLaneID: "default",
		} {
			res := callNamed(t, s, "echo", `{"text":"hello"}`,
				sdk.Meta{envelope.MetaRunID: "r1", envelope.MetaLaneID: "default", envelope.MetaReport: true})
			if said, _ := res.Meta[name].(string); !strings.HasPrefix(said, says) {
				t.Errorf("%s is %q", name, said)
			}
		}
		// Older protocols have a list as the member of an object; what was streamed comes before it.
		res = callNamed(t, s, "count", `{"input":2}`, nil)
		if got := words(res); got != "0\n1\n[0,1]" {
			t.Errorf("%q", got)
		}
		want := "[0,1]"
		if s.InitializeResult().ProtocolVersion < "2026-07-28" {
			want = `{"output":[0,1]}`
		}
		if got := structured(t, res); got != want {
			t.Errorf("structured content %s, want %s", got, want)
		}
	})
}

func TestErrors(t *testing.T) {
	f := start(t)
	each(t, mcp.New(t.Context(), f.Client, mcp.Options{}), f, nil, func(t *testing.T, s *sdk.ClientSession) {
		res := callNamed(t, s, "fail", `{"text":"no room"}`, nil)
		for _, want := range []string{"no room", "What to do: empty the box.", "Nothing was done."} {
			if !res.IsError || !strings.Contains(words(res), want) {
				t.Errorf("no %q in %q", want, words(res))
			}
		}
		if res.Meta[envelope.MetaCode] == "" || res.Meta[envelope.MetaOutcome] != "terminal_error" {
			t.Errorf("_meta %v", res.Meta)
		}
		res = callNamed(t, s, "echo", `{"txt":"x"}`, nil)
		if want := "arguments/text: is missing"; !res.IsError || !strings.Contains(words(res), want) ||
			!strings.Contains(words(res), "Nothing was done.") {
			t.Errorf("no %q in %q", want, words(res))
		}
		for arguments, wants := range map[string][]string{
			`{"inputt":3}`:  {"arguments/input: is missing", "arguments/inputt: is not allowed here"},
			`{"input":"x"}`: {"arguments/input: must be integer"}, `{}`: {"arguments/input: is missing"},
		} {
			res := callNamed(t, s, "count", arguments, nil)
			for _, want := range append(wants, "Nothing was done.", "What to do: correct these places.") {
				id, _ := res.Meta[envelope.MetaAuditEventID].(string) // the others have no input to be sent
				if !res.IsError || (id == "") == strings.HasPrefix(arguments, `{"input":`) ||
					res.Meta[envelope.MetaCode] != "I-REQ-SCHEMA" || !strings.Contains(words(res), want) {
					t.Errorf("%s: no %q in %q", arguments, want, words(res))
				}
			}
		}
		_, err := s.ListPrompts(t.Context(), nil)
		wantCode(t, err, jsonrpc.CodeMethodNotFound)
		_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "ecko"})
		wantCode(t, err, jsonrpc.CodeInvalidParams)
		if !strings.Contains(err.Error(), "did you mean echo?") {
			t.Error(err)
		}
		for name, meta := range map[string]sdk.Meta{
			"key": {envelope.MetaIdempotencyKey: 7}, "short key": {envelope.MetaIdempotencyKey: "short"},
			"report":   {envelope.MetaReport: "yes"},
			"deadline": {envelope.MetaDeadlineMS: "soon"}, "version": {envelope.MetaToolVersion: ""},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: text{"x"}, Meta: meta})
				wantCode(t, err, jsonrpc.CodeInvalidParams)
			})
		}
	})
}

func TestSearch(t *testing.T) {
	f := start(t)
	each(
		t,
		mcp.New(t.Context(), f.Client, mcp.Options{Search: mcp.Search{Above: 4}}),
		f,
		nil,
		func(t *testing.T, s *sdk.ClientSession) {
			tools, err := s.ListTools(t.Context(), nil)
			if err != nil || tools.Tools[0].Name != envelope.MCPSearchTool {
				t.Fatalf("%+v: %v", tools, err)
			}
			for words, want := range map[string]string{
				"send a text": "send", "SENDS!": "send", "waiting": "", "wait": "hold", "say what": "echo",
			} {
				res := callNamed(t, s, envelope.MCPSearchTool, `{"words":"`+words+`"}`, nil)
				var found struct{ Tools []*sdk.Tool }
				if err := json.Unmarshal([]byte(structured(t, res)), &found); err != nil {
					t.Fatal(err)
				}
				got := ""
				if len(found.Tools) > 0 {
					got = found.Tools[0].Name
				}
				if got != want {
					t.Errorf("%s: %q, want %q", words, got, want)
				}
			}
			for wrong, where := range map[string]string{
				`{}`: "words: is missing", `{"words":""}`: "words: must", `{"words":"a","limit":51}`: "limit: must",
				`{"words":"a","limit":0}`: "limit: must", `{"words":"a","more":1}`: "more: is not allowed",
				`{"words":"` + strings.Repeat("a", 401) + `"}`: "words: must",
			} {
				res := callNamed(t, s, envelope.MCPSearchTool, wrong, nil)
				if !res.IsError || !strings.Contains(words(res), where) {
					t.Errorf("%s: %s", wrong, words(res))
				}
			}
		},
	)
	none := f.connect(t, mcp.New(t.Context(), f.Client, mcp.Options{}), protocols[0], nil)
	if tools, err := none.ListTools(t.Context(), nil); err != nil || tools.Tools[0].Name == envelope.MCPSearchTool {
		t.Errorf("few tools: %+v: %v", tools, err)
	}
}
