package imports_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const module = "github.com/seed-018f16cc/toolbus/"

// vague names say where code was put and not what it does.
var vague = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "base", "misc", "shared"}

// pkg is a package as `go list` tells it.
type pkg struct {
	ImportPath   string
	Name         string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (p pkg) path() string { return within(p.ImportPath) }

// within is where a package lies in this module, "." for its root. Others keep their path.
func within(path string) string {
	if path+"/" == module {
		return "."
	}
	return strings.TrimPrefix(path, module)
}

func TestNames(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(vague, p.Name) {
			t.Errorf("package %s: the name %q does not say what it does", p.path(), p.Name)
		}
	}
}

// TestDependencies compares the modules that this one requires directly, and their versions, with the table that
// gives the reason for each.
func TestDependencies(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Version  string
			Indirect bool
		}
		Tool []struct{ Path string }
	}
	decode(t, goCommand(t, "mod", "edit", "-json"), &mod)
	var required []string
	for _, r := range mod.Require {
		asTool := slices.ContainsFunc(mod.Tool, func(tool struct{ Path string }) bool {
			return strings.HasPrefix(tool.Path,
				r.Path+"/")
		})
		if !r.Indirect || asTool {
			required = append(required, r.Path+" "+r.Version)
		}
	}
	slices.Sort(required)
	if documented := documented(t); !slices.Equal(required, documented) {
		t.Errorf("go.mod and docs/dependencies.md disagree\nonly in go.mod: %v\nonly in docs:   %v",
			without(required, documented), without(documented, required))
	}
}

// documented returns the modules of the table in docs/dependencies.md with their versions, sorted.
func documented(t *testing.T) (modules []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		if name := strings.TrimSpace(cells[1]); strings.HasPrefix(name, "`") {
			modules = append(modules, strings.Trim(name, "`")+" "+strings.TrimSpace(cells[2]))
		}
	}
	slices.Sort(modules)
	return modules
}

func without(list, remove []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(remove, s) })
}

// matches says whether path is one of the packages that patterns name.
func matches(patterns, path string) bool {
	for pattern := range strings.FieldsSeq(patterns) {
		folder, below := strings.CutSuffix(pattern, "/...")
		if path == folder || below && strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

// packages returns the packages of this module, and with the flag -deps all that they import, too.
func packages(t *testing.T, flags ...string) (list []pkg) {
	t.Helper()
	args := append([]string{"list", "-json=ImportPath,Name,Standard,Imports,TestImports,XTestImports"}, flags...)
	out := jsontext.NewDecoder(strings.NewReader(goCommand(t, append(args, "./...")...)))
	for {
		var p pkg
		err := json.UnmarshalDecode(out, &p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "go", args...)
}

// command runs a program at the root of the module, and returns what it says.
func command(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

func decode(t *testing.T, data string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		t.Fatal(err)
	}
}
