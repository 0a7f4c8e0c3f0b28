package scaffold_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		"greet": true, "search.web": true, "local::fs.write": true, "a-b_c.1": true, strings.Repeat("a", 128): true,
		"": false, "Greet": false, ".": false, "..": false, "../greet": false, "a/b": false, "-greet": false,
		".git": false, "a:b": false, "a::": false, "a::.b": false, "grüße": false, "a b": false, "a\n": false,
		strings.Repeat("a", 129): false,
	} {
		if err := scaffold.Check(id, scaffold.Go); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, l := range []scaffold.Language{"", "Go", "ruby"} {
		if scaffold.Check("greet", l) == nil {
			t.Errorf("language %q is allowed", l)
		}
	}
}

// Each tool is one that lint has nothing to say about, also under a name with a namespace. Only a Go program has to be
// built first.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"greet", "local::search.web"} {
		dir := filepath.Join(t.TempDir(), "my tools")
		for _, l := range scaffold.Languages() {
			tools := filepath.Join(dir, string(l))
			made, err := scaffold.Write(tools, id, l)
			if err != nil {
				t.Fatal(err)
			}
			if l == scaffold.Go {
				build(t, filepath.Join(made.Folder, "bin", id))
			}
			set, problems, err := tool.Lint(tools, process.Describe())
			if err != nil || set.Len() != 1 || len(problems) > 0 {
				t.Errorf("%s in %s: %v, %v", id, l, problems, err)
			}
			for _, name := range made.Files {
				if text := read(t, made.Folder, name); strings.Contains(text, "TOOL_ID") || strings.Contains(text, "FOLDER") ||
					strings.Contains(text, "ENDPOINT") {
					t.Errorf("%s of %s has a placeholder:\n%s", name, l, text)
				}
			}
		}
	}
}

// build stands for the build of a Go program.
func build(t *testing.T, program string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(program), 0o700), os.WriteFile(program, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The program that the command names belongs to the build digest.
func TestProgramIsInTheDigest(t *testing.T) {
	t.Parallel()
	for l, program := range map[scaffold.Language]string{
		scaffold.Go: "bin/greet", scaffold.Python: "main.py", scaffold.Node: "main.mjs", scaffold.Shell: "main.sh",
	} {
		dir := t.TempDir()
		made, err := scaffold.Write(dir, "greet", l)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(made.Folder, program)
		if l == scaffold.Go {
			build(t, file)
		}
		before := digest(t, dir)
		if err := os.WriteFile(file, []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
		if digest(t, dir) == before {
			t.Errorf("another %s is the same build", program)
		}
	}
}

func digest(t *testing.T, dir string) string {
	t.Helper()
	set, err := tool.Load(dir, process.Describe())
	if err != nil {
		t.Fatal(err)
	}
	return set.List()[0].Digest
}

// An existing folder stays as it is.
func TestWriteReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, err := scaffold.Write(dir, "greet", scaffold.Python)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(made.Folder, "main.py"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scaffold.Write(dir, "greet", scaffold.Shell); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(made.Folder, "main.sh")); err == nil || read(t, made.Folder, "main.py") != "mine" {
		t.Errorf("the folder was changed: %v", err)
	}
}

// A Go tool within a module is a package of it.
func TestWriteInAModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inside, err := scaffold.Write(filepath.Join(dir, "tools"), "greet", scaffold.Go)
	if err != nil || slices.Contains(inside.Files, "go.mod") {
		t.Errorf("%q, %v", inside.Files, err)
	}
	alone, err := scaffold.Write(t.TempDir(), "greet", scaffold.Go)
	if err != nil || !slices.Contains(alone.Files, "go.mod") {
		t.Errorf("%q, %v", alone.Files, err)
	}
}
