package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
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
	another(t, tools, "two", "")
	another(t, tools, "three", "pool: other\n")
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
		"tools have changed: two (removed)\n",
		filepath.Join(tools, "three", "tool.yaml") + ": it is the first tool of the pool"} {
		if !bytes.Contains(said.Bytes(), []byte(want)) {
			t.Errorf("dev did not say %q: %s", want, said)
		}
	}
}

// A call just after an edit of its tool is not admitted for the build before, so its key is usable in a moment.
func TestCallAfterEdit(t *testing.T) {
	tools, program := sayTools(t)
	s, stop, _ := startDevOf(t, tools, t.TempDir(), "--data-dir", t.TempDir(), "--port", "0")
	defer stop()
	s.until("say", "first")
	for _, text := range []string{"second", "third", "fourth"} {
		replace(t, program, saying(text))
		code, stdout, stderr := s.do("call", "say", "--key", text+"-edit-of-the-tool", "--timeout", "30s")
		for code == exitRetryable {
			code, stdout, stderr = s.do("call", "say", "--key", text+"-edit-of-the-tool", "--timeout", "30s")
		}
		if code != 0 || !strings.Contains(stdout, text) {
			t.Errorf("%s: %d %s%s", text, code, stdout, stderr)
		}
	}
}

// another adds a tool to a folder of tools, with more lines of its manifest.
func another(t *testing.T, tools, id, more string) {
	t.Helper()
	made, _ := sayTools(t)
	write(t, filepath.Join(made, "say", "tool.yaml"), strings.Replace(sayManifest, "tool_id: say", "tool_id: "+id, 1)+more)
	if err := os.Rename(filepath.Join(made, "say"), filepath.Join(tools, id)); err != nil {
		t.Fatal(err)
	}
}

// following returns a development that serves the folder of sayTools, and what it prints.
func following(t *testing.T) (d *development, tools *toolbus.Toolset, program string, said *bytes.Buffer) {
	t.Helper()
	said, tools = new(bytes.Buffer), toolbus.NewToolset()
	d = &development{global: &global{env: &environment{stdout: said, stderr: said}}}
	d.node.Tools, program = sayTools(t)
	set, err := tool.Load(d.node.Tools, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	d.loaded.builds = map[string]build{"say": {set.List()[0].Digest, set.List()[0].Semver}}
	if err := tools.AddFolder(d.node.Tools); err != nil {
		t.Fatal(err)
	}
	return d, tools, program, said
}

// A reload says which tools with a problem are still served, which never were, and which are repaired.
func TestReloadSays(t *testing.T) {
	t.Parallel()
	d, tools, program, said := following(t)
	manifest := filepath.Join(d.node.Tools, "say", "tool.yaml")
	write(t, manifest, sayManifest+"nonsense: 1\n")
	another(t, d.node.Tools, "two", "nonsense: 1\n")
	d.reload(tools)
	for _, want := range []string{
		"not loaded, and still served as before:\n" + manifest + ":8:1: ",
		"\nnot loaded, and not served:\n" + filepath.Join(d.node.Tools, "two", "tool.yaml") + ":8:1: ",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
	if strings.Contains(said.String(), "have changed") {
		t.Errorf("a broken tool has changed: %s", said)
	}
	for _, step := range []struct {
		text, says, not string
	}{
		{"second", "its calls are refused with S-TOOL-UNAVAILABLE", "still served as before"},
		{"first", "still served as before", "its calls are refused with S-TOOL-UNAVAILABLE"},
	} {
		said.Reset()
		replace(t, program, saying(step.text))
		d.reload(tools)
		if !strings.Contains(said.String(), step.says) || strings.Contains(said.String(), step.not) {
			t.Errorf("with the program %q it says %s", step.text, said)
		}
	}
	replace(t, program, saying("first"))
	write(t, manifest, sayManifest)
	write(t, filepath.Join(d.node.Tools, "two", "tool.yaml"),
		strings.Replace(sayManifest, "tool_id: say", "tool_id: two", 1))
	for _, want := range []string{"tools have changed: say (repaired), two (repaired)\n", ""} {
		said.Reset()
		if d.reload(tools); said.String() != want {
			t.Errorf("got %q, want %q", said, want)
		}
	}
}

// A reload names both versions of a tool that has another one.
func TestReloadNamesVersions(t *testing.T) {
	t.Parallel()
	d, tools, _, said := following(t)
	newer := strings.Replace(sayManifest, "semver: 1.0.0", "semver: 1.1.0", 1)
	write(t, filepath.Join(d.node.Tools, "say", "tool.yaml"), newer)
	d.reload(tools)
	if want := "tools have changed: say (1.0.0 is now 1.1.0)\n"; said.String() != want {
		t.Errorf("got %q, want %q", said, want)
	}
}

// A reload prints the warnings of tools that have changed, each once.
func TestReloadWarns(t *testing.T) {
	t.Parallel()
	d, tools, _, said := following(t)
	manifest := filepath.Join(d.node.Tools, "say", "tool.yaml")
	gone := filepath.Join(d.node.Tools, "say", "words")
	another(t, d.node.Tools, "same", "health: {liveness: 'cmd:./health'}\n") // its warning was printed at the start
	set, err := tool.Load(d.node.Tools, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range set.List() {
		d.loaded.builds[m.ToolID] = build{m.Digest, m.Semver}
	}
	text := strings.Replace(sayManifest, "[./say.sh]", "[./say.sh, -v, ./words]", 1)
	write(t, gone, "some")
	write(t, manifest, text)
	d.reload(tools)
	const changed = "tools have changed: say\n"
	if said.String() != changed {
		t.Errorf("without a warning it says %q", said)
	}
	said.Reset()
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	d.reload(tools)
	want := changed + manifest + ":6:36: warning: the file words is missing ("
	if !strings.HasPrefix(said.String(), want) {
		t.Errorf("got %q, want %q", said, want)
	}
	said.Reset()
	write(t, manifest, text+"title: Say\n")
	if d.reload(tools); said.String() != changed {
		t.Errorf("the same warning again: %q", said)
	}
}

// A reload does not replace a tool by a build that cannot run here: its script or its interpreter is missing.
func TestReloadOfUnrunnable(t *testing.T) {
	t.Parallel()
	d, tools, program, said := following(t)
	serveHere(t, tools)
	manifest := filepath.Join(d.node.Tools, "say", "tool.yaml")
	for command, says := range map[string]string{
		"[sh, ./mian.sh]":  ":6:26: the file mian.sh is missing",
		"[pyton3, say.sh]": ":6:22: the tool cannot run here: pyton3 is not in PATH",
	} {
		said.Reset()
		write(t, manifest, strings.Replace(sayManifest, "[./say.sh]", command, 1))
		d.reload(tools)
		if want := "not loaded, and still served as before:\n" + manifest + says; !strings.HasPrefix(said.String(), want) {
			t.Errorf("got %q, want %q", said, want)
		}
		said.Reset()
		write(t, manifest, sayManifest)
		if d.reload(tools); said.String() != "tools have changed: say (repaired)\n" {
			t.Errorf("after the mend it says %q", said)
		}
	}
	write(t, manifest, strings.Replace(sayManifest, "[./say.sh]", "[sh, ./say.sh]", 1))
	d.reload(tools)
	said.Reset()
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	d.reload(tools)
	want := "not loaded, and refused until the problem is mended:\n" + manifest
	if !strings.HasPrefix(said.String(), want) {
		t.Errorf("without the script: got %q, want %q", said, want)
	}
}

// serveHere makes an executor of the tools, which runs none.
func serveHere(t *testing.T, tools *toolbus.Toolset) {
	t.Helper()
	srv := natstest.Start(t)
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, err := conn.Executor(tools, toolbus.ExecutorOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A bus starts without the tools that cannot run here, names them, and needs one that can.
func TestStartWithoutUnrunnable(t *testing.T) {
	t.Parallel()
	d, tools, _, said := following(t)
	for id, command := range map[string]string{"two": "[pyton3, ./say.sh]", "three": "[sh, ./mian.sh]"} {
		another(t, d.node.Tools, id, "")
		text := strings.Replace(sayManifest, "tool_id: say", "tool_id: "+id, 1)
		write(t, filepath.Join(d.node.Tools, id, "tool.yaml"), strings.Replace(text, "[./say.sh]", command, 1))
	}
	starts := func(want int) error {
		t.Helper()
		tools = toolbus.NewToolset()
		err := errors.Join(tools.AddFolder(d.node.Tools), d.leaveOut(tools))
		if tools.Len() != want {
			t.Errorf("%d tools are served, want %d", tools.Len(), want)
		}
		return err
	}
	err := starts(1)
	for _, id := range []string{"two", "three"} {
		if at := filepath.Join(d.node.Tools, id, "tool.yaml") + ":6:2"; err != nil || !strings.Contains(said.String(), at) {
			t.Errorf("it does not say %q: %s, %v", at, said, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(d.node.Tools, "say")); err != nil {
		t.Fatal(err)
	}
	if err := starts(0); err == nil || !strings.Contains(err.Error(), "pyton3 is not in PATH") {
		t.Errorf("without a tool that can run: %v", err)
	}
}

// A second folder for a tool that is served from another one is not served, whatever its name.
func TestReloadGoesByTheFolder(t *testing.T) {
	t.Parallel()
	d, tools, _, said := following(t)
	another(t, d.node.Tools, "bank.pay", "")
	if err := os.Rename(filepath.Join(d.node.Tools, "bank.pay"), filepath.Join(d.node.Tools, "bank_2epay")); err != nil {
		t.Fatal(err)
	}
	d.reload(tools)
	empty := filepath.Join(d.node.Tools, "bank.pay")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	said.Reset()
	d.reload(tools)
	if want := "not loaded, and not served:\n" + empty; !strings.HasPrefix(said.String(), want) {
		t.Errorf("got %q, want %q", said, want)
	}
	if err := os.RemoveAll(filepath.Join(d.node.Tools, "bank_2epay")); err != nil {
		t.Fatal(err)
	}
	said.Reset()
	if d.reload(tools); !strings.Contains(said.String(), "tools have changed: bank.pay (removed)\n") {
		t.Errorf("got %q", said)
	}
}

// An edit is loaded after at most three looks at the files.
func TestFollowIsFast(t *testing.T) {
	t.Parallel()
	d, tools, program, said := following(t)
	read := stampOf(d.node.Tools)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.follow(ctx, tools, read) }()
		for _, text := range []string{"second", "third"} {
			replace(t, program, saying(text))
			<-time.After(3 * lookEvery)
			synctest.Wait()
			if said.String() != "tools have changed: say\n" {
				t.Errorf("after %v it says %q", 3*lookEvery, said)
			}
			said.Reset()
		}
		stop()
		<-ended
	})
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond: lookEvery, 20 * time.Millisecond: 2 * lookEvery, time.Minute: maxPause,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after a look of %v the pause is %v, want %v", took, got, want)
		}
	}
}
