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

// spec returns that of a pure tool.
func spec(id string, l scaffold.Language) scaffold.Spec {
	return scaffold.Spec{ID: id, Language: l, Class: scaffold.Pure}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		"greet": true, "search.web": true, "local::fs.write": true, "a-b_c.1": true, strings.Repeat("a", 128): true,
		"": false, "Greet": false, ".": false, "..": false, "../greet": false, "a/b": false, "-greet": false,
		".git": false, "a:b": false, "a::": false, "a::.b": false, "grüße": false, "a b": false, "a\n": false,
		strings.Repeat("a", 129): false,
	} {
		if err := spec(id, scaffold.Go).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, l := range []scaffold.Language{"", "Go", "ruby"} {
		if spec("greet", l).Check() == nil {
			t.Errorf("language %q is allowed", l)
		}
	}
	for _, c := range []scaffold.Class{"", "Pure", "sideeffectful"} {
		if (scaffold.Spec{ID: "greet", Language: scaffold.Go, Class: c}).Check() == nil {
			t.Errorf("class %q is allowed", c)
		}
	}
}

// Each tool is one that lint has nothing to say about, also under a name with a namespace. Only a Go program has to be
// built first.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"greet", "local::search.web"} {
		for _, l := range scaffold.Languages() {
			for _, c := range scaffold.Classes() {
				testWrite(t, scaffold.Spec{ID: id, Language: l, Class: c})
			}
		}
	}
}

func testWrite(t *testing.T, s scaffold.Spec) {
	t.Helper()
	tools := filepath.Join(t.TempDir(), "my tools")
	made, err := scaffold.Write(tools, s)
	if err != nil {
		t.Fatal(err)
	}
	if s.Language == scaffold.Go {
		build(t, filepath.Join(made.Folder, "bin", s.ID))
	}
	set, problems, err := tool.Lint(tools, process.Describe())
	if err != nil || set.Len() != 1 || len(problems) > 0 {
		t.Fatalf("%v: %v, %v", s, problems, err)
	}
	lookup := s.Class == scaffold.SideEffectful
	if m := set.List()[0]; string(m.Class) != string(s.Class) || m.Capability.Lookup != lookup {
		t.Errorf("%v: class %s, lookup %v", s, m.Class, m.Capability.Lookup)
	}
	for _, name := range made.Files {
		text := read(t, made.Folder, name)
		for _, placeholder := range []string{"TOOL_ID", "FOLDER", "ENDPOINT", "CLASS", "LOOKUP", "TIMEOUT", "REQUIRE"} {
			if strings.Contains(text, placeholder) {
				t.Errorf("%s of %v has the placeholder %s:\n%s", name, s, placeholder, text)
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
		made, err := scaffold.Write(dir, spec("greet", l))
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
	made, err := scaffold.Write(dir, spec("greet", scaffold.Python))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(made.Folder, "main.py"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scaffold.Write(dir, spec("greet", scaffold.Shell)); !errors.Is(err, fs.ErrExist) {
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
	inside, err := scaffold.Write(filepath.Join(dir, "tools"), spec("greet", scaffold.Go))
	if err != nil || slices.Contains(inside.Files, "go.mod") {
		t.Errorf("%q, %v", inside.Files, err)
	}
	alone, err := scaffold.Write(t.TempDir(), spec("greet", scaffold.Go))
	if err != nil || !slices.Contains(alone.Files, "go.mod") {
		t.Errorf("%q, %v", alone.Files, err)
	}
}

// A Go tool requires the version of Toolbus that wrote it, if the go command can fetch that.
func TestRequires(t *testing.T) {
	t.Parallel()
	const require = "\ngo 1.26\n\nrequire github.com/seed-018f16cc/toolbus v0.3.0\n"
	for module, want := range map[string]string{"v0.3.0": require, "": "\ngo 1.26\n"} {
		s := spec("greet", scaffold.Go)
		s.Module = module
		made, err := scaffold.Write(t.TempDir(), s)
		if err != nil {
			t.Fatal(err)
		}
		if text := read(t, made.Folder, "go.mod"); !strings.HasSuffix(text, want) {
			t.Errorf("%q: %q", module, text)
		}
	}
}
