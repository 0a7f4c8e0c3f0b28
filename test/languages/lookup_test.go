package languages

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// The program that the lookup of docs/writing-tools.md is the middle of. It commits an effect in its folder.
const (
	lookupHead = `import json, pathlib, sys

def write(line):
    print(json.dumps(line), flush=True)

def find(key):
    effect = pathlib.Path("effect." + key)
    return json.loads(effect.read_text()) if effect.exists() else None

`
	lookupTail = `else:
    output = {"text": "Hello " + call["input"]["name"]}
    pathlib.Path("effect." + call["idempotency_key"]).write_text(json.dumps(output))
    write({"type": "output", "output": output})
`
)

// sideEffectful serves a tool in Python that has the lookup of the page.
func sideEffectful(t *testing.T) *toolbustest.Bus {
	t.Helper()
	page, err := os.ReadFile("../../docs/writing-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	lookup := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if lookup == nil {
		t.Fatal("the page shows no lookup")
	}
	dir := t.TempDir()
	made, err := scaffold.Write(dir, scaffold.Spec{ID: id, Language: scaffold.Python, Class: scaffold.Pure})
	if err != nil {
		t.Fatal(err)
	}
	manifest, program := filepath.Join(made.Folder, "tool.yaml"), filepath.Join(made.Folder, "main.py")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("determinism: pure", "determinism: side_effectful", "streaming: true", "lookup: true").
		Replace(string(text))
	if err := errors.Join(os.WriteFile(manifest, []byte(changed), 0o600),
		os.WriteFile(program, []byte(lookupHead+string(lookup[1])+lookupTail), 0o600)); err != nil {
		t.Fatal(err)
	}
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	return toolbustest.Start(t, tools)
}

// The lookup of the page finds the effect of a run whose executor has died, and says absent without one.
func TestLookupOfThePage(t *testing.T) {
	t.Parallel()
	bus := sideEffectful(t)
	call := toolbus.Call{Tool: id, Input: []byte(`{"name":"Ada"}`)}
	bus.CrashAfterRun(id)
	resp, err := bus.Call(t.Context(), call)
	if err != nil || !strings.Contains(string(resp.Output), "Hello Ada") {
		t.Errorf("after a run: %v, %v", resp, err)
	}
	bus.CrashBeforeRun(id)
	_, err = bus.Call(t.Context(), call)
	if toolbus.CodeOf(err) != envelope.CodeToolUnknownState ||
		!strings.Contains(err.Error(), "the lookup of the tool was asked") {
		t.Errorf("before a run: %v", err)
	}
}
