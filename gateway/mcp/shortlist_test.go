package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// many is a bus with 130 tools. Three of them have names that a tool of the gateway has, or might have.
func many(t *testing.T) *fixture {
	t.Helper()
	more := []toolbus.Tool{
		{ID: "crm.update_contact", Class: toolbus.Pure, Description: "Changes the address of a customer."},
		{ID: "search_tools", Class: toolbus.Pure}, {ID: "call_tool", Class: toolbus.Pure},
		{ID: envelope.MCPCallTool, Class: toolbus.Pure},
	}
	for i := len(more) + 5; i < 130; i++ {
		more = append(more, toolbus.Tool{
			ID: fmt.Sprintf("depot_%03d", i), Class: toolbus.Pure, Description: "Counts boxes in one depot.",
		})
	}
	return start(t, more...)
}

// names lists the names of all tools of a client.
func names(t *testing.T, s *sdk.ClientSession) (all []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tool.Name)
	}
	return all
}

// of returns the names of the tools that a search finds.
func of(t *testing.T, s *sdk.ClientSession, words string) (all []string) {
	t.Helper()
	res := callNamed(t, s, envelope.MCPSearchTool, fmt.Sprintf(`{"words":%q,"limit":2}`, words), nil)
	var found struct{ Tools []*sdk.Tool }
	if err := json.Unmarshal([]byte(structured(t, res)), &found); err != nil {
		t.Fatal(err)
	}
	for _, tool := range found.Tools {
		all = append(all, tool.Name)
	}
	return all
}

// connected is a client with what it hears.
type connected struct {
	*sdk.ClientSession
	heard chan struct{}
}

// A client of a bus with 130 tools lists the pinned ones, finds another one, calls it and lists it from then on, in all
// protocols and over all transports. Over HTTP without sessions it is not listed. Nobody else's list changes.
func TestSearchOnly(t *testing.T) {
	f := many(t)
	var said bytes.Buffer
	door := mcp.New(t.Context(), f.Client, mcp.Options{
		Search: mcp.Search{Pinned: []string{"echo", "echo", "sennd"}}, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	s := open(t, door)
	for _, protocol := range protocols {
		for _, transport := range []string{"http", "memory"} {
			t.Run(protocol+" "+transport, func(t *testing.T) {
				join := func() connected {
					heard := make(chan struct{}, 100)
					o := &sdk.ClientOptions{
						ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { heard <- struct{}{} },
					}
					if transport == "http" {
						return connected{over(t, s, protocol, o), heard}
					}
					return connected{f.connect(t, door, protocol, o), heard}
				}
				searches(t, join(), join(), transport == "http" && protocol == protocols[0])
			})
		}
	}
	if text := said.String(); strings.Count(text, "pinned=sennd") != 1 || !strings.Contains(text, "did you mean send?") ||
		strings.Contains(text, "pinned=echo") {
		t.Errorf("it warns: %s", text)
	}
}

func searches(t *testing.T, c, other connected, stateless bool) {
	t.Helper()
	first := []string{envelope.MCPSearchTool, envelope.MCPCallTool, "echo"}
	if got := names(t, c.ClientSession); !slices.Equal(got, first) {
		t.Fatalf("it lists %q", got)
	}
	if got := of(t, c.ClientSession, "update contact"); !slices.Equal(got, []string{"crm_update_contact"}) {
		t.Fatalf("it finds %q", got)
	}
	after := append(slices.Clone(first[:2]), "crm_update_contact", "echo")
	if stateless {
		after = first
	} else {
		<-c.heard
	}
	if got := names(t, c.ClientSession); !slices.Equal(got, after) {
		t.Errorf("then it lists %q", got)
	}
	if got := names(t, other.ClientSession); !slices.Equal(got, first) {
		t.Errorf("another client lists %q", got)
	}
	for _, arguments := range []string{`{"text":"x"}`, `{"text":7}`, `{}`, `{"text":"x","more":1}`} {
		direct := callNamed(t, c.ClientSession, "crm_update_contact", arguments, nil)
		through := callNamed(t, c.ClientSession, envelope.MCPCallTool,
			`{"name":"crm_update_contact","arguments":`+arguments+`}`, nil)
		if direct.IsError != through.IsError || words(direct) != words(through) ||
			structured(t, direct) != structured(t, through) {
			t.Errorf("%s: %s %v\ndirect: %s %v", arguments, words(through), through.IsError, words(direct), direct.IsError)
		}
	}
	for range 2 { // what is found again changes nothing
		of(t, c.ClientSession, "update contact")
	}
	if c.InitializeResult().ProtocolVersion == protocols[1] && len(c.heard)+len(other.heard) > 0 {
		t.Errorf("%d and %d more notifications", len(c.heard), len(other.heard))
	}
}

// A call through CallTool is the same call as a direct one, with key, progress and errors.
func TestCallTool(t *testing.T) {
	f := many(t)
	only := true
	door := mcp.New(t.Context(), f.Client, mcp.Options{Search: mcp.Search{Only: &only}})
	reported := make(chan *sdk.ProgressNotificationParams, 100)
	o := &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			reported <- r.Params
		},
	}
	each(t, door, f, o, func(t *testing.T, s *sdk.ClientSession) {
		protocol, ran := s.InitializeResult().ProtocolVersion, f.ran.Load()
		meta := sdk.Meta{envelope.MetaIdempotencyKey: "one-key-of-" + protocol, envelope.MetaReport: true}
		through := callNamed(t, s, envelope.MCPCallTool, `{"name":"send","arguments":{"text":"x"}}`, meta)
		direct := callNamed(t, s, "send", `{"text":"x"}`, meta)
		if a, b := through.Meta[envelope.MetaRef], direct.Meta[envelope.MetaRef]; a != b || a == nil {
			t.Errorf("the calls are %v and %v", a, b)
		}
		if n := f.ran.Load() - ran; n != 1 {
			t.Errorf("it ran %d times", n)
		}
		counts := json.RawMessage(`{"name":"count","arguments":{"input":2}}`)
		params := &sdk.CallToolParams{Name: envelope.MCPCallTool, Arguments: counts}
		params.SetProgressToken(protocol)
		if res, err := s.CallTool(t.Context(), params); err != nil || res.IsError {
			t.Errorf("%+v: %v", res, err)
		}
		got := <-reported
		for got.ProgressToken != protocol { // progress of the session before, which came after its answer
			got = <-reported
		}
		if got.Progress != 1 {
			t.Errorf("progress %v", got.Progress)
		}
		failed := callNamed(t, s, envelope.MCPCallTool, `{"name":"fail","arguments":{"text":"so"}}`, nil)
		if want := callNamed(t, s, "fail", `{"text":"so"}`, nil); !failed.IsError || words(failed) != words(want) {
			t.Errorf("%s\ndirect: %s", words(failed), words(want))
		}
		for wrong, where := range map[string]string{
			`{}`: "name: is missing", `{"name":""}`: "name: must", `{"name":"echo","arguments":[]}`: "arguments: must",
			`{"name":"echo","text":"x"}`: "text: is not allowed", `{"name":"` + strings.Repeat("a", 257) + `"}`: "name: must",
		} {
			if res := callNamed(t, s, envelope.MCPCallTool, wrong, nil); !res.IsError || !strings.Contains(words(res), where) {
				t.Errorf("%s: %s", wrong, words(res))
			}
		}
		for name, says := range map[string]string{
			"crm_update_contacts": "did you mean crm_update_contact?", envelope.MCPCallTool: "any tool but itself",
			"qqqqqqqqqqqqqqqq": "toolbus_search_tools has",
		} {
			_, err := s.CallTool(t.Context(), naming(name))
			wantCode(t, err, jsonrpc.CodeInvalidParams)
			if !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, own := range []string{"search_tools", "call_tool"} { // tools of the bus
			if res := callNamed(t, s, own, `{"text":"own"}`, nil); !strings.Contains(words(res), "own") {
				t.Errorf("%s: %s", own, words(res))
			}
		}
		within := callNamed(t, s, envelope.MCPCallTool,
			`{"name":"toolbus_search_tools","arguments":{"words":"update contact"}}`, nil)
		if !strings.Contains(words(within), "crm_update_contact") {
			t.Error(words(within))
		}
	})
}

// naming is a call of CallTool that names a tool.
func naming(name string) *sdk.CallToolParams {
	return &sdk.CallToolParams{Name: envelope.MCPCallTool, Arguments: map[string]any{"name": name}}
}

// A request over HTTP says whether its list is short, an option says it, and otherwise the number of tools does.
func TestSearchOnlyHeader(t *testing.T) {
	f := many(t)
	yes, no := true, false
	for _, c := range []struct {
		only          *bool
		header, wants string
	}{
		{nil, "", "short"}, {nil, "false", "long"}, {&yes, "", "short"}, {&yes, "0", "long"}, {&no, "", "long"},
		{&no, "true", "short"}, {nil, "maybe", "Toolbus-Search-Only is true or false"},
	} {
		s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{Search: mcp.Search{Only: c.only}, PageSize: 200}))
		header := http.Header{
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"},
		}
		if c.header != "" {
			header.Set("Toolbus-Search-Only", c.header)
		}
		_, answer := post(t, s.URL, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, header)
		short := strings.Contains(answer, `"name":"`+envelope.MCPCallTool+`"`) && !strings.Contains(answer, `"depot_`)
		long := !strings.Contains(answer, `"name":"`+envelope.MCPCallTool+`"`) && strings.Contains(answer, `"depot_`)
		if short != (c.wants == "short") || long != (c.wants == "long") ||
			!short && !long && !strings.Contains(answer, c.wants) {
			t.Errorf("%+v: %.300s", c, answer)
		}
	}
}

// A search finds what its caller may call, also after a policy push, and pinned or found tools are listed only then.
func TestSearchOnlyPolicy(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	operator := w.operator()
	before, err := operator.PolicyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	revision, err := operator.PushPolicy(t.Context(), shifts("sleep"), before[0].Revision, "")
	if err != nil {
		t.Fatal(err)
	}
	only := true
	s := open(t, w.server(mcp.Options{
		Search: mcp.Search{Only: &only, Pinned: []string{"whoami"}}, Every: 20 * time.Millisecond,
	}))
	bob := auth.Principal{Actor: "agent://bob", Role: auth.Agent, RoleIDs: []string{"other"}, Lane: "others"}
	if err := w.Issue("bob", "default", bob, time.Hour); err != nil {
		t.Fatal(err)
	}
	ann := as(t, s, protocols[1], w.token("ann", "agent://ann", auth.Agent, ""))
	other := as(t, s, protocols[1], w.read("bob"))
	lists(t, ann, envelope.MCPSearchTool, envelope.MCPCallTool, "whoami")
	lists(t, other, envelope.MCPSearchTool, envelope.MCPCallTool)
	for words, want := range map[string]string{"sleep": "[sleep]", "whoami": "[]"} {
		if got := fmt.Sprint(of(t, other, words)); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	lists(t, other, envelope.MCPSearchTool, envelope.MCPCallTool, "sleep")
	if got := of(t, ann, "sleep"); len(got) > 0 {
		t.Errorf("another caller finds %q", got)
	}
	if _, err := operator.PushPolicy(t.Context(), shifts("whoami"), revision, ""); err != nil {
		t.Fatal(err)
	}
	lists(t, other, envelope.MCPSearchTool, envelope.MCPCallTool, "whoami")
	if got := of(t, other, "sleep"); len(got) > 0 {
		t.Errorf("after the push it finds %q", got)
	}
	through := func(name string) string {
		_, err := other.CallTool(t.Context(), naming(name))
		return strings.ReplaceAll(fmt.Sprint(err), name, "NAME")
	}
	if hidden, unknown := through("sleep"), through("zzzzz"); hidden != unknown {
		t.Errorf("hidden:  %s\nunknown: %s", hidden, unknown)
	}
}
