// Package tools_test runs the shipped tools as an executor does: manifests through the loader,
// programs through the process adapter.
package tools_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/tools"
)

func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	os.Exit(m.Run())
}

// programs are the shipped tools: folder and program.
var programs = map[string]string{
	"fs_2ewrite": "fs-write", "text_2esearch": "text-search", "transcript_2eclean": "transcript-clean",
	"web_2efetch": "web-fetch",
}

// install copies the tools to a folder of their own, builds them there and loads it.
func install(t *testing.T) *tool.Set {
	t.Helper()
	dir := t.TempDir()
	for folder, program := range programs {
		to := filepath.Join(dir, folder)
		if err := os.CopyFS(filepath.Join(to, "schema"), os.DirFS(filepath.Join(folder, "schema"))); err != nil {
			t.Fatal(err)
		}
		manifest, err := os.ReadFile(filepath.Join(folder, "tool.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		local := strings.Replace(string(manifest), "[./web-fetch]", "[./web-fetch, --allow-network, 127.0.0.1/32]", 1)
		if err := os.WriteFile(filepath.Join(to, "tool.yaml"), []byte(local), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(to, program), "./"+folder)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build, err, out)
		}
	}
	registry, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// TestWrite loads the manifests that Write writes. The command of each ends with a program that Program knows.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := tools.Write(dir, "/usr/bin/toolbus", "dev", "tool"); err != nil {
		t.Fatal(err)
	}
	set, err := tool.Load(dir, app.Transports()...)
	if err != nil || set.Len() != len(programs) {
		t.Fatalf("the manifests cannot be loaded: %v", err)
	}
	for _, m := range set.List() { // a lane without write may call the others
		if writes := m.Class != call.Pure && !m.ReadOnly; writes != (m.ToolID == "fs.write") {
			t.Errorf("%s writes: %t", m.ToolID, writes)
		}
	}
	for folder, name := range programs {
		manifest, err := os.ReadFile(filepath.Join(dir, folder, "tool.yaml"))
		if command := fmt.Sprintf(`["/usr/bin/toolbus","dev","tool",%q]`, name); err != nil ||
			!strings.Contains(string(manifest), command) {
			t.Errorf("the command of %s is not %s: %v", folder, command, err)
		}
		if _, err := tools.Program(name, nil, os.Getenv); err != nil {
			t.Error(err)
		}
	}
	if _, err := tools.Program("none", nil, os.Getenv); err == nil {
		t.Error("an unknown program is a tool")
	}
	if _, err := tools.Program("web-fetch", []string{"--allow-network", "all"}, os.Getenv); err == nil {
		t.Error("a network that is none is allowed")
	}
}

// chunks counts what a tool emits.
type chunks map[envelope.ChunkKind]int

func (c chunks) Emit(_ context.Context, kind envelope.ChunkKind, _ jsontext.Value) error {
	c[kind]++
	return nil
}

func TestTools(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.FileServer(http.Dir("web_2efetch/testdata/site")))
	t.Cleanup(site.Close)
	registry := install(t)
	if registry.Len() != len(programs) {
		t.Errorf("%d tools are loaded", registry.Len())
	}
	adapter, err := process.New(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("One sentence of a transcript.\n\n", 2000)
	for _, test := range []struct {
		name, tool, fn string
		input          any
		dryRun         bool
		output         string // a part of it
		chunks         int    // of data, at least
		code           envelope.Code
		details        string // a part of what callers see of them
	}{
		{name: "fetch", tool: "web.fetch", fn: "fetch", input: map[string]any{"url": site.URL + "/news.html"},
			output: `"byline":"Lena Vogel"`},
		{name: "fetch nothing", tool: "web.fetch", fn: "fetch", input: map[string]any{"url": site.URL + "/none"},
			code: "P-PRECOND-NOT_FETCHABLE", details: `"upstream_status":404`},
		{name: "fetch from a network that is not allowed", tool: "web.fetch", fn: "fetch",
			input: map[string]any{"url": "http://127.0.0.2/"},
			code:  "P-PRECOND-NOT_FETCHABLE", details: `"reason":"address"`},
		{name: "fetch no URL", tool: "web.fetch", fn: "fetch", input: map[string]any{"url": "ftp://example.com"},
			code: "I-REQ-INVALID_URL"},
		{name: "clean", tool: "transcript.clean", fn: "clean", input: map[string]any{"text": long},
			output: `"clean_text":"One`, chunks: 2000},
		{name: "clean nothing", tool: "transcript.clean", fn: "clean", input: map[string]any{"text": "[Music]"},
			code: "D-DATA-EMPTY_TRANSCRIPT"},
		{name: "rehearse", tool: "fs.write", fn: "write", input: map[string]any{"path": "a/b", "content": "x"}, dryRun: true,
			output: `"created":true`},
		{name: "write", tool: "fs.write", fn: "write", input: map[string]any{"path": "a/b", "content": "x"},
			output: `"created":true`},
		{name: "write again", tool: "fs.write", fn: "write", input: map[string]any{"path": "a/b", "content": "x"},
			output: `"created":false`},
		{name: "write outside", tool: "fs.write", fn: "write", input: map[string]any{"path": "../b", "content": "x"},
			code: "I-REQ-PATH_OUTSIDE"},
		{name: "search", tool: "text.search", fn: "search", input: map[string]any{"pattern": "additionalProperties"},
			output: `"truncated":false`, chunks: 2},
		{name: "search nothing", tool: "text.search", fn: "search", input: map[string]any{"pattern": "("},
			code: "I-REQ-BAD_PATTERN"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, _ := registry.Get(test.tool, "")
			emitted := chunks{}
			result, err := adapter.Execute(t.Context(), m, invocation(t, m, test.fn, test.input, test.dryRun), emitted)
			if err != nil {
				got := tool.ClassifyError(adapter, m, err)
				details, err := json.Marshal(got.Details)
				if err != nil || test.code == "" || got.Code != test.code || got.Details.Effect != envelope.EffectNone ||
					!strings.Contains(string(details), test.details) {
					t.Errorf("error is %+v, %v", got, err)
				}
				return
			}
			if test.code != "" || !strings.Contains(string(result.Output), test.output) ||
				emitted[envelope.ChunkData] < test.chunks {
				t.Errorf("output is %.200s, chunks are %v", result.Output, emitted)
			}
			if broken := m.Functions[test.fn].Response.Validate(result.Output); broken != nil {
				t.Errorf("output breaks its schema: %+v", broken)
			}
		})
	}
	t.Run("look up", func(t *testing.T) {
		m, _ := registry.Get("fs.write", "")
		for content, want := range map[string]bool{"x": true, "y": false} {
			inv := invocation(t, m, "write", map[string]any{"path": "a/b", "content": content}, false)
			if _, found, err := adapter.Lookup(t.Context(), m, inv); found != want || err != nil {
				t.Errorf("%s is found: %v, %v", content, found, err)
			}
		}
	})
}

func invocation(t *testing.T, m *tool.Manifest, fn string, input any, dryRun bool) tool.Invocation {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	if broken := m.Functions[fn].Request.Validate(data); broken != nil {
		t.Errorf("input breaks its schema: %+v", broken)
	}
	return tool.Invocation{
		CallID: "c7a2c5ce-3a43-4b0f-93a5-5b1e0d6a4f10", ToolID: m.ToolID, ToolVersion: m.Semver, Digest: m.Digest, Fn: fn,
		Input:          data,
		IdempotencyKey: "key-of-the-test-0001", Attempt: 1, Fence: 1, Deadline: time.Now().Add(30 * time.Second),
		DryRun: dryRun,
	}
}
