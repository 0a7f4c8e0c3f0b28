//go:build linux

package mcptools_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/gen"
)

// sections are the parts of a page of contracts that are about one tool, in the order of their names.
func sections(page []byte) (all []string) {
	starts := regexp.MustCompile(`(?m)^## [a-z]+\.[a-z]+$`).FindAllIndex(page, -1)
	for i, at := range starts {
		end := len(page)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		all = append(all, string(bytes.TrimSpace(page[at[0]:end])))
	}
	slices.Sort(all)
	return all
}

// TestContracts holds the tools to the page that they were asked for by: nothing of it is lost, and nothing is added.
func TestContracts(t *testing.T) {
	t.Parallel()
	registry, err := tool.Load(".", app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	made, err := gen.Contracts(registry)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("internal/testdata/contracts.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sections(page), sections(made)); diff != "" {
		t.Error(diff)
	}
	var callable []string
	for _, m := range registry.List() {
		if m.Callable() {
			callable = append(callable, m.ToolID)
		}
	}
	if !slices.Equal(callable, []string{"search.web"}) {
		t.Errorf("without an operator %v can be called", callable)
	}
}

// TestListed asks each server for its tools: they are what the manifests say.
func TestListed(t *testing.T) {
	t.Parallel()
	dir := install(t)
	registry, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, name := range []string{"web-fetch", "transcript-clean", "mlxctl"} {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &sdk.CommandTransport{
			Command: exec.CommandContext(t.Context(), filepath.Join(built, name)),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for one, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			m, known := registry.Get(one.Name, "")
			if known != nil {
				t.Fatal(one.Name, known)
			}
			listed = append(listed, one.Name)
			for _, fn := range m.Functions {
				same(t, fn.Request.Raw(), one.InputSchema)
				same(t, fn.Response.Raw(), one.OutputSchema)
			}
		}
		if err := session.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(listed) != 5 {
		t.Errorf("listed are %v", listed)
	}
}

// same holds that two values are the same JSON.
func same(t *testing.T, raw []byte, v any) {
	t.Helper()
	var want, got any
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal(raw, &want) != nil || json.Unmarshal(text, &got) != nil {
		t.Fatalf("no JSON: %s, %s", raw, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
