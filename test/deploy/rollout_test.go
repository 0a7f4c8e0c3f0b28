package deploy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

// A tool that comes to the executors first, then to the dispatchers, works at once: executors get the rights to write
// its outcomes, though no dispatcher knew it when they connected.
func TestNewTool(t *testing.T) {
	d := processtest.Prepare(t, processtest.Options{
		Programs: processtest.Build(t, "../..", "text_2esearch", "transcript_2eclean"), Profile: "single",
	})
	d.Serve(0)
	old := t.TempDir()
	known := filepath.Join(d.Tools, "text_2esearch")
	if err := os.CopyFS(filepath.Join(old, "text_2esearch"), os.DirFS(known)); err != nil {
		t.Fatal(err)
	}
	dispatcher := func(tools string) *processtest.Process {
		return processtest.Start(t, "is serving", d.Toolbus(), "dispatcher", "--secrets-dir", filepath.Join(d.Dir, "keys"),
			"--server", d.URL, "--tools", tools)
	}
	first := dispatcher(old)
	worker, _ := d.Credential(auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: "default"})
	processtest.Start(t, "works for pool", d.Toolbus(), "executor", "--credentials", worker, "--server", d.URL,
		"--tools", d.Tools)
	first.Terminate(t, startTime)
	dispatcher(d.Tools)
	d.AllowAll()
	resp, err := (&testDeployment{d}).caller().Call(t.Context(), toolbus.Call{
		Tool: "transcript.clean", Input: []byte(`{"text":"Anna: So, um, the plan."}`), Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatalf("%v %+v", err, resp)
	}
}
