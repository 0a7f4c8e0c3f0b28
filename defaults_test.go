package toolbus_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// Defaults of a deployment hold for tools of folders and for Go functions, as callers see it.
func TestSetDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "defaults.yaml")
	const text = "defaults:\n- {tools: \"*\", env: [dev], timeout_ms: 1234}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]int64{"dev": 1234, "prod": 15000} {
		tools := toolbus.NewToolset()
		if err := tools.AddFolder(sourceTool(t, answering)); err != nil {
			t.Fatal(err)
		}
		if err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure}, Greet); err != nil {
			t.Fatal(err)
		}
		if err := tools.SetDefaults(file, env); err != nil {
			t.Fatal(err)
		}
		bus := toolbustest.Start(t, tools)
		for _, id := range []string{"search.web", "greet"} {
			info, err := bus.Tool(t.Context(), id)
			if err != nil || info.TimeoutDefaultMS != want {
				t.Errorf("%s, %s: timeout %d ms, want %d, %v", env, id, info.TimeoutDefaultMS, want, err)
			}
		}
	}
	tools := toolbus.NewToolset()
	if err := tools.SetDefaults(file, "production"); err == nil {
		t.Error("an environment that does not exist is taken")
	}
	if err := tools.SetDefaults("no such file", "dev"); err == nil {
		t.Error("a file that is missing is taken")
	}
}
