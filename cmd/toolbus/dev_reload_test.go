package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// replace puts a program in the place of another one, as compilers do: a run of the former one goes on.
func replace(t *testing.T, program, text string) {
	t.Helper()
	write(t, program+".new", text)
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
}

// until calls a tool until it says a text.
func (s shell) until(tool, text string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, stdout, stderr := s.do("call", tool)
		if strings.Contains(stdout, text) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s never says %q: %s%s", tool, text, stdout, stderr)
		}
	}
}

// An edited tool is live without a restart. A broken one is reported with its file and line and goes on as it was, and
// so do the others. A call that runs ends on its build. Tools come and go.
func TestDevReload(t *testing.T) {
	tools, program := sayTools(t)
	s, stop, said := startDevOf(t, tools, t.TempDir(), "--data-dir", t.TempDir(), "--port", "0")
	s.until("say", "first")
	running, goes := filepath.Join(tools, "say", "running"), filepath.Join(tools, "say", "go")
	write(t, goes, "")
	const waits = "touch running; until [ -e go ]; do sleep 0.1; done; echo"
	replace(t, program, strings.Replace(saying("slow"), "echo", waits, 1))
	s.until("say", "slow")
	for _, name := range []string{running, goes} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	slow := make(chan string, 1)
	go func() { _, stdout, stderr := s.do("call", "say"); slow <- stdout + stderr }()
	for _, err := os.Stat(running); err != nil; _, err = os.Stat(running) {
		s.do("calls", "list")
	}
	replace(t, program, saying("second"))
	s.until("say", "second")
	write(t, goes, "")
	if out := <-slow; !strings.Contains(out, "slow") {
		t.Errorf("the call that ran when its tool was edited says %q", out)
	}

	manifest := filepath.Join(tools, "say", "tool.yaml")
	write(t, manifest, strings.Replace(sayManifest, "determinism: pure", "determinism: purest", 1))
	other, _ := sayTools(t)
	write(t, filepath.Join(other, "say", "tool.yaml"), strings.Replace(sayManifest, "tool_id: say", "tool_id: two", 1))
	if err := os.Rename(filepath.Join(other, "say"), filepath.Join(tools, "two")); err != nil {
		t.Fatal(err)
	}
	s.until("two", "first")
	s.must("call", "say")
	write(t, manifest, sayManifest)
	replace(t, program, saying("third"))
	s.until("say", "third")
	write(t, manifest, strings.Replace(sayManifest, "determinism: pure", "determinism: idempotent", 1))
	replace(t, program, saying("fourth"))
	s.until("say", "fourth") // the policy of dev allows the tool to write
	if err := os.RemoveAll(filepath.Join(tools, "two")); err != nil {
		t.Fatal(err)
	}
	for code := 0; code == 0; {
		code, _, _ = s.do("call", "two")
	}
	stop()
	if bytes.Contains(said.Bytes(), []byte("cannot be used")) {
		t.Errorf("the policy of dev does not follow the tools: %s", said)
	}
	for _, want := range []string{"say/tool.yaml:5:14", "tools have changed: say\n", "tools have changed: two\n",
		"tools have changed: two (removed)\n"} {
		if !bytes.Contains(said.Bytes(), []byte(want)) {
			t.Errorf("dev did not say %q: %s", want, said)
		}
	}
}
