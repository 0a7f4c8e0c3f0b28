package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
)

// TestWritingTools holds that docs/writing-tools.md shows the files that `toolbus tools new` writes: all of the Python
// tool but its test, and the programs in Node and shell.
func TestWritingTools(t *testing.T) {
	page, shown := read(t, "docs/writing-tools.md"), 0
	for language, names := range map[scaffold.Language]string{
		scaffold.Python: "tool.yaml request.json response.json main.py", scaffold.Node: "main.mjs", scaffold.Shell: "main.sh",
	} {
		files, err := scaffold.Spec{ID: "greet", Language: language, Class: scaffold.Pure}.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.Contains(" "+names+" ", " "+f.Name+" ") {
				continue
			}
			if shown++; !strings.Contains(page, " "+f.Name+"\n"+f.Text+"```\n") {
				t.Errorf("docs/writing-tools.md does not show %s of %s as it is:\n%s", f.Name, language, f.Text)
			}
		}
	}
	if shown != 6 {
		t.Errorf("only %d files were compared", shown)
	}
}

// TestGoOfWritingTools vets and tests the Go program of docs/writing-tools.md, in a module that is not this one.
func TestGoOfWritingTools(t *testing.T) { testGoOf(t, "docs/writing-tools.md") }

// TestGoOfCalling does the same for the agent of docs/calling.md. The agent itself links no package but caller.
func TestGoOfCalling(t *testing.T) {
	agent := testGoOf(t, "docs/calling.md")
	if strings.Contains(agent, `"github.com/seed-018f16cc/toolbus"`) {
		t.Error("the agent imports package toolbus")
	}
}

// testGoOf vets and tests the program and the test that a page shows, and returns the program.
func testGoOf(t *testing.T, page string) (program string) {
	t.Helper()
	module := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	put("go.mod", strings.Replace(read(t, "test/frontdoor/go.mod"), "=> ../..", "=> "+here, 1))
	put("go.sum", read(t, "test/frontdoor/go.sum"))
	block := regexp.MustCompile("(?s)```go ([a-z_/]+\\.go)\n(.*?)```")
	files := block.FindAllStringSubmatch(read(t, page), -1)
	if len(files) < 2 {
		t.Fatalf("the page shows %d files in Go", len(files))
	}
	for _, f := range files {
		put(f[1], f[2])
	}
	goIn(t, module, "go", "vet", "./...")
	goIn(t, module, "go", "test", "./...")
	return files[0][2]
}
