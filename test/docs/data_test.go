package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	function = regexp.MustCompile(`^[A-Za-z]+$`)
	value    = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z]+)`")
)

// Every file and function that a call passes is there, each file once, and so is every type that is handed on.
func TestOneCallAsData(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/life-of-a-call.md"), "\n## One call as data\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var passed, client []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.Contains(cells[1], "`") {
			continue
		}
		name := quoted.FindStringSubmatch(cells[1])[1]
		if slices.Contains(passed, name) {
			t.Errorf("%s is passed twice", name)
		}
		if passed = append(passed, name); path.Dir(name) == "caller" ||
			strings.HasPrefix(name, "internal/client/") {
			client = append(client, name)
		}
		declared := functionsOf(t, name)
		way := quoted.FindAllStringSubmatch(cells[2], -1)
		for i, m := range slices.Concat(way, quoted.FindAllStringSubmatch(cells[4], -1)) {
			if (i < len(way) || function.MatchString(m[1])) && !declared[m[1]] && m[1] != "o" {
				t.Errorf("%s has no function %s", name, m[1])
			}
		}
		if len(way) == 0 {
			t.Errorf("nothing of %s is passed", name)
		}
	}
	want := []string{
		"caller/client.go", "internal/client/client.go", "internal/client/call.go", "internal/client/preflight.go",
		"internal/client/catalogue/catalogue.go", "internal/client/attempt.go",
		"internal/client/exchange/exchange.go", "internal/client/exchange/calls.go",
	}
	if len(passed) < 40 || !slices.Equal(client, want) || !slices.Equal(passed[:len(want)], want) {
		t.Errorf("%d files are passed; the client's are %q, want first of all %q", len(passed), client, want)
	}
	for _, m := range value.FindAllStringSubmatch(section, -1) {
		if m[1] != "nats" && !hasType(t, m[1], m[2]) {
			t.Errorf("there is no type %s.%s", m[1], m[2])
		}
	}
}

func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// functionsOf returns the names of the functions and methods that a file declares.
func functionsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	for _, d := range parse(t, filepath.Join(root, name)).Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			declared[f.Name.Name] = true
		}
	}
	return declared
}

// hasType says whether a package declares a type.
func hasType(t *testing.T, pkg, name string) bool {
	t.Helper()
	folder, ok := folders[pkg]
	if !ok {
		folder = pkg
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		return slices.ContainsFunc(parse(t, file).Decls, func(d ast.Decl) bool {
			g, ok := d.(*ast.GenDecl)
			return ok && slices.ContainsFunc(g.Specs, func(s ast.Spec) bool {
				spec, ok := s.(*ast.TypeSpec)
				return ok && spec.Name.Name == name
			})
		})
	})
}
