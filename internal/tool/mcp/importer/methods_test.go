//go:build linux

package importer_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// has is a server with some capabilities. One with completions has subscriptions, too.
func has(t *testing.T, resources, prompts, completions bool) client.Server {
	t.Helper()
	o := &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{}, Instructions: "Use it."}
	if resources {
		o.Capabilities.Resources = &sdk.ResourceCapabilities{Subscribe: completions}
	}
	if prompts {
		o.Capabilities.Prompts = &sdk.PromptCapabilities{}
	}
	if completions {
		o.CompletionHandler = func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{}, nil
		}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "2.1.0"}, o)
	s.AddTool(&sdk.Tool{Name: "protocol", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return client.Server{URL: web.URL}
}

// A server with resources, prompts or completions gets a tool with the methods that it has, beside its own tools.
func TestImportMethods(t *testing.T) {
	lists, gets := []string{"resources_list", "resources_read", "resources_templates_list"},
		[]string{"prompts_get", "prompts_list"}
	for name, c := range map[string]struct {
		server client.Server
		want   []string
	}{
		"none":      {has(t, false, false, false), nil},
		"resources": {has(t, true, false, false), lists},
		"prompts":   {has(t, false, true, false), gets},
		"all": {has(t, true, true, true), slices.Concat([]string{"completion_complete"}, gets, lists[:2],
			[]string{"resources_subscribe"}, lists[2:])},
	} {
		s := newShop(t, "[]")
		s.server = c.server
		r := s.imports()
		if c.want == nil {
			if len(r.Tools) != 1 {
				t.Errorf("%s: %+v", name, r.Tools)
			}
			continue
		}
		own, methods := r.Tools[0], r.Tools[1]
		if own.ID != "mcp::docs::protocol" || own.State != importer.Added || methods.State != importer.Added ||
			!strings.HasPrefix(methods.ID, "mcp::docs::protocol-") || methods.Class != call.Idempotent {
			t.Fatalf("%s: %+v", name, r.Tools)
		}
		m := s.loaded(methods.ID)
		if diff := cmp.Diff(c.want, slices.Sorted(maps.Keys(m.Functions))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if m.Capability.Streaming != (name == "all") {
			t.Errorf("%s: %+v", name, m.Capability)
		}
		e, _ := m.Endpoint.(mcp.Endpoint)
		if !e.Methods || !m.ReadOnly || m.Semver != "2.1.0" || m.Listed == nil || !m.Listed.Methods ||
			m.Listed.Server.Instructions != "Use it." {
			t.Errorf("%s: %+v, %+v", name, m, e)
		}
		if again := s.imports().Tools[1]; again.State != importer.Same || len(again.Notes) > 0 {
			t.Errorf("%s: again: %+v", name, again)
		}
		for _, change := range s.changes() {
			if change.ID != own.ID || change.State != importer.Same {
				t.Errorf("%s: compared: %+v", name, change)
			}
		}
	}
}

// A server that has more than at its import is named, and its manifest stays.
func TestImportMoreMethods(t *testing.T) {
	s := newShop(t, "[]")
	s.server = has(t, true, false, false)
	id := s.imports().Tools[1].ID
	file := filepath.Join(s.options.Dir, mcp.ServersFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	more := has(t, true, true, false)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), s.server.URL, more.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.server = more
	again := s.imports().Tools[1]
	if again.ID != id || again.State != importer.Same || len(again.Notes) != 2 ||
		!strings.Contains(again.Notes[0], "prompts/list") {
		t.Errorf("%+v", again)
	}
	if err := os.RemoveAll(filepath.Join(s.options.Dir, subjects.Token(id))); err != nil {
		t.Fatal(err)
	}
	if again := s.imports().Tools[1]; again.State != importer.Added || len(s.loaded(again.ID).Functions) != 5 {
		t.Errorf("%+v", again)
	}
}

// The parameters of methods fit the schemas of their functions, and others do not.
func TestMethodSchemas(t *testing.T) {
	s := newShop(t, "[]")
	s.server = has(t, true, true, true)
	m := s.loaded(s.imports().Tools[1].ID)
	for fn, inputs := range map[string]map[string]bool{
		"resources_list":      {`{}`: true, `{"cursor":"x"}`: true, `{"cursor":7}`: false, `{"uri":"x"}`: false},
		"resources_read":      {`{"uri":"far:/x?y=ü"}`: true, `{}`: false, `{"uri":7}`: false},
		"resources_subscribe": {`{"uris":["far:/x","y"]}`: true, `{"uris":[]}`: false, `{"uri":"x"}`: false},
		"prompts_get": {`{"name":"x"}`: true, `{"name":"x","arguments":{"a":"b"}}`: true,
			`{"name":"x","arguments":{"a":1}}`: false},
		"completion_complete": {
			`{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}`:                             true,
			`{"ref":{"type":"ref/resource","uri":"x"},"argument":{"name":"a","value":""},"context":{"arguments":{}}}`: true,
			`{"ref":{"type":"ref/tool"},"argument":{"name":"a","value":""}}`:                                          false,
		},
	} {
		for input, valid := range inputs {
			if bad := m.Functions[fn].Request.Validate([]byte(input)); (bad == nil) != valid {
				t.Errorf("%s %s: %v", fn, input, bad)
			}
		}
	}
}
