package toolbus_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// sourceTool writes the tool of 000 §1 to a folder, with edits of its manifest, and returns the folder of tools. The
// program is left out if it is "".
func sourceTool(t *testing.T, program string, edits ...string) string {
	t.Helper()
	manifest, err := os.ReadFile("internal/tool/testdata/000/tool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"tool.yaml":           strings.NewReplacer(edits...).Replace(string(manifest)),
		"schema/request.json": "{}", "schema/response.json": "{}", "errors.md": "", "bin/search.web": program,
	}
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, "search.web", name)
		if name == "bin/search.web" && program == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serving runs a bus with the tools of a folder.
func serving(t *testing.T, dir string) *toolbustest.Bus {
	t.Helper()
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	return toolbustest.Start(t, tools)
}

// answering is a program that answers each request with the name of its function, and leaves a file that says it ran.
const answering = `#!/bin/sh
read -r request
touch ran
fn=${request#*'"fn":"'}
printf '{"type":"output","output":"%s"}\n' "${fn%%'"'*}"
`

// The manifest of 000 §1 runs unchanged: the schemas hold for each function, and the program gets the name.
func TestToolOfTheSource(t *testing.T) {
	bus := serving(t, sourceTool(t, answering))
	for fn, want := range map[string]string{"query": "query", "": "run"} {
		got, err := toolbus.Invoke[string](t.Context(), bus.Client, toolbus.Call{Tool: "search.web", Function: fn}, "x")
		if err != nil || got != want {
			t.Errorf("function %q: %q, %v", fn, got, err)
		}
	}
}

// A tool that never runs: its program is missing, or is not the one that the manifest names.
func TestToolThatNeverRuns(t *testing.T) {
	for _, c := range []struct {
		name, program string
		edits         []string
		code          envelope.Code
	}{
		{"no program", "", nil, "S-TOOL-UNAVAILABLE"},
		{"another program", answering, []string{"abcdef...", strings.Repeat("0", 64)}, "C-CONTRACT-DIGEST"},
	} {
		dir := sourceTool(t, c.program, c.edits...)
		bus := serving(t, dir)
		if listed, err := bus.Tools(t.Context()); err != nil || len(listed) != 1 {
			t.Errorf("%s: listed %d tools, %v", c.name, len(listed), err)
		}
		once := &toolbus.RetryPolicy{MaxAttempts: 1}
		_, err := bus.Call(t.Context(), toolbus.Call{Tool: "search.web", Function: "query", Retry: once})
		if toolbus.CodeOf(err) != c.code || toolbus.EffectOf(err) != toolbus.EffectNone {
			t.Errorf("%s: %v, effect %v, want %s and none", c.name, err, toolbus.EffectOf(err), c.code)
		}
		if _, err := os.Stat(filepath.Join(dir, "search.web", "ran")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it ran: %v", c.name, err)
		}
	}
}

// A tool that requires keys takes no call whose key the client would have to make. A dispatcher refuses such a call, so
// the refusal has the id of its record.
func TestKeyRequirement(t *testing.T) {
	dir := sourceTool(t, answering, "owner:", "idempotency_key_requirement: required\nowner:")
	bus := serving(t, dir)
	call := toolbus.Call{Tool: "search.web", Function: "query"}
	_, err := bus.Call(t.Context(), call)
	refusal, _ := errors.AsType[*toolbus.Error](err)
	if toolbus.CodeOf(err) != "I-REQ-SCHEMA" || !strings.Contains(refusal.Fix(), "idempotency key") ||
		refusal.Key() != "" || refusal.Response().Provenance.AuditEventID == "" {
		t.Errorf("without a key: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "search.web", "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
	call.Key = "order-0000000000001"
	if _, err := bus.Call(t.Context(), call); err != nil {
		t.Errorf("with a key: %v", err)
	}
}
