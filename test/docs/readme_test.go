package docs_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReadmeProgram does what the README says: it puts the Go program into a folder beside this repository,
// makes a module of it, builds it, and runs it against a bus with the shipped tool. The second run has the same key.
func TestReadmeProgram(t *testing.T) {
	program := buildReadme(t)
	environ := devBus(t)
	for _, run := range []string{"first", "second"} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), environ...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"text":"func main() {`) {
			t.Errorf("%s run: %v\n%s", run, err, out)
		}
	}
}

// buildReadme builds the program of the README with the commands of the README, and returns its file.
func buildReadme(t *testing.T) string {
	t.Helper()
	readme := read(t, "README.md")
	_, rest, _ := strings.Cut(readme, "```go\n")
	source, rest, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the README has no Go program")
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(here, filepath.Join(dir, "toolbus")); err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(dir, "my-agent")
	if err := os.Mkdir(agent, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": source, "go.sum": read(t, "go.sum")} {
		if err := os.WriteFile(filepath.Join(agent, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block := shell.FindStringSubmatch(rest)
	for _, words := range commands(block[1]) {
		switch strings.Join(words, " ") {
		case "go mod tidy": // it also wants what only the tests of others need; go.sum has all the rest
		case "go run .":
			goIn(t, agent, "go", "build", "-mod=mod", "-o", "program", ".")
		default:
			goIn(t, agent, words...)
		}
	}
	buildReadmeTool(t, agent, rest)
	return filepath.Join(agent, "program")
}

// buildReadmeTool makes a tool of the second program of the README, with its commands. rest is what follows the first.
func buildReadmeTool(t *testing.T, agent, rest string) {
	t.Helper()
	_, rest, _ = strings.Cut(rest, "```go\n")
	source, rest, _ := strings.Cut(rest, "```")
	if err := os.Mkdir(filepath.Join(agent, "greet"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(agent, "greet", "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range commands(shell.FindStringSubmatch(rest)[1]) {
		if words[0] == "go" {
			goIn(t, agent, slices.Insert(words, 2, "-mod=mod")...)
		}
	}
	for _, name := range []string{"greet", "tool.yaml", "run.request.json"} {
		if _, err := os.Stat(filepath.Join(agent, "tools", "greet", name)); err != nil {
			t.Error(err)
		}
	}
}

func goIn(t *testing.T, dir string, words ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// devBus runs `toolbus dev` with text.search, which searches its own source here, and returns what it says that the
// environment of a program needs.
func devBus(t *testing.T) (environ []string) {
	t.Helper()
	bin, work := build(t), t.TempDir()
	const folder = "tools/text_2esearch"
	if err := os.CopyFS(filepath.Join(work, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
		t.Fatal(err)
	}
	goIn(t, root, "go", "build", "-o", filepath.Join(work, folder, "text-search"), "./"+folder)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	args := []string{"dev", "--tools", filepath.Join(work, "tools"), "--state", filepath.Join(work, "state"), "--port",
		"0"}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "toolbus"), args...)
	cmd.Dir, cmd.Stderr = work, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for len(environ) < 2 && lines.Scan() {
		if _, set, ok := strings.Cut(lines.Text(), "export "); ok {
			environ = append(environ, set)
		}
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() }) // it was told to end
	if len(environ) < 2 {
		t.Fatalf("toolbus dev does not say where it serves, and how programs are let in: %q", environ)
	}
	return environ
}
