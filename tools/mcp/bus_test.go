//go:build linux

package mcptools_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// TestBus calls the tools through a bus as they are shipped: one may be called, and the others are listed until an
// operator says otherwise.
func TestBus(t *testing.T) {
	t.Parallel()
	var searches atomic.Int32
	proxy := engine(t)
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		searches.Add(1)
		proxy.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(counted.Close)
	dir := shipped(t)
	for variable, value := range map[string]string{ // executors of tests have no environment
		"LITELLM_BASE_URL": counted.URL, "LITELLM_API_KEY": "secret", "LITELLM_SEARCH_TOOL": "engine",
	} {
		file := filepath.Join(dir, mcp.ServersFile)
		edit(t, file, file, "${env:"+variable+":-}", value)
	}
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	ask := func(tool, key, input string) *envelope.Response {
		t.Helper()
		r, err := toolbus.Outcome(bus.Call(t.Context(), toolbus.Call{Tool: tool, Key: key, Input: jsontext.Value(input)}))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 2 {
		r := ask("search.web", "key-of-the-search-1", `{"query":"sea wall"}`)
		if r.Status != envelope.Success || !strings.Contains(string(r.Output), `"title":"sea wall"`) {
			t.Errorf("%v: %v %s", r.Status, r.Error, r.Output)
		}
	}
	if n := searches.Load(); n != 1 {
		t.Errorf("the engine was asked %d times under one key", n)
	}
	for input, code := range map[string]envelope.Code{
		`{"query":" "}`: "I-REQ-INVALID_QUERY", `{"query":""}`: envelope.CodeSchema,
		`{"query":"nonsense"}`: "R-UPSTREAM-UPSTREAM_FAILURE",
	} {
		if r := ask("search.web", "", input); r.Error == nil || r.Error.Code != code {
			t.Errorf("%s: %v, want %s", input, r.Error, code)
		}
	}
	r := ask("web.fetch", "", `{"url":"http://127.0.0.1:1/"}`)
	if r.Error == nil || r.Error.Code != envelope.CodeToolDisabled {
		t.Errorf("a tool that is planned: %v", r.Error)
	}
}
