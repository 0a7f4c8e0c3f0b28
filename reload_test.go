package toolbus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// A folder that is added again is read again, also for those that have the set already. A tool with a problem stays as
// it was, and so does one that cannot be served before a restart.
func TestAddFolderAgain(t *testing.T) {
	dir := sourceTool(t, answering)
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	said := func() string {
		t.Helper()
		got, err := toolbus.Invoke[string](t.Context(), bus.Client, toolbus.Call{Tool: "search.web"}, "x")
		if err != nil {
			return string(toolbus.CodeOf(err))
		}
		return got
	}
	if got := said(); got != "run" {
		t.Fatalf("got %s", got)
	}
	again := func(want string) {
		t.Helper()
		err := tools.AddFolder(dir)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	again("")
	file := filepath.Join(dir, "search.web", "tool.yaml")
	program := filepath.Join(dir, "search.web", "bin", "search.web")
	if err := os.WriteFile(program, []byte(strings.Replace(answering, `${fn%%'"'*}`, "edited", 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	again("")
	if got := said(); got != "edited" {
		t.Errorf("after the edit: %s", got)
	}
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(manifest) + "nonsense: 1\n": "tool.yaml:", string(manifest) + "pool: other\n": "restart the process",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		again(want)
		if got := said(); got != "edited" {
			t.Errorf("after %s: %s", want, got)
		}
	}
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	again("")
	if got := said(); got != string(envelope.CodeToolUnknown) {
		t.Errorf("after it was removed: %s", got)
	}
}
