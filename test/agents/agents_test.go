package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

var installed = flag.String("installed", "", "folder in which test/agents/run.sh has installed clients and servers")

// TestAgents runs each client against the servers, directly and through the bus. The clients come from npm and PyPI:
// `make mcp-agents` installs them and gives -installed.
func TestAgents(t *testing.T) {
	if *installed == "" {
		t.Log("make mcp-agents runs this with the clients")
		return
	}
	w := newWorld(t, *installed)
	for _, script := range []struct{ name, program string }{
		{"equality.py", w.python("one")},
		{"schemas.py", w.python("one")},
		{"python_one.py", w.python("one")},
		{"python_two.py", w.python("two")},
		{"typescript_one.mjs", w.Node},
		{"typescript_two.mjs", w.Node},
		{"inspector.mjs", w.Node},
		{"openai_agents.py", w.python("two")},
		{"langchain_agent.py", w.python("one")},
	} {
		t.Run(script.name, func(t *testing.T) { w.run(t, script.program, script.name) })
	}
}

// run runs a script in folder clients. The script reads the world from the file that is its only argument, prints each
// failure, and exits with 1 if there was one.
func (w *world) run(t *testing.T, program, script string) {
	t.Helper()
	w.within(t, 6*time.Minute, program, filepath.Join("clients", script))
}

// within runs a script with the file of the world and further arguments.
func (w *world) within(t *testing.T, most time.Duration, program, script string, more ...string) {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.dir, "world.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{script, file}, more...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NODE_PATH="+w.Modules, "OPENAI_AGENTS_DISABLE_TRACING=1",
		"TOOLBUS_URL="+w.Bus, "HOME="+w.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out, logged bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &logged
	err = cmd.Run()
	if t.Logf("%s", out.String()); err != nil {
		t.Errorf("%s: %v\n%s", script, err, logged.Bytes()[max(0, logged.Len()-2000):])
	}
}
