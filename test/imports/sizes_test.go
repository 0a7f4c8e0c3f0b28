package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// The limits of a line, a function and the names of a package fail the test. A package of more than largePackage lines
// is printed as a warning: whether to split it depends on its nouns and not on its length. Tests count for lines only.
const (
	maxLine      = 120 // characters
	maxFunction  = 60  // lines, tables excepted
	maxExported  = 60  // names of a package, without their methods and fields
	largePackage = 3000
)

// larger names the packages that export more, and why.
var larger = map[string]string{
	"envelope":       "each error code, status, effect and limit of the contract is a name of its own",
	"subjects":       "each kind of subject has a builder and, where it is read, a parser",
	".":              "the types of a call are aliases of package envelope, each with its sentence",
	"bus":            "each way in which a connection fails, and a command tells its user, is a name of its own",
	"internal/auth":  "each role, account, export and permission is a name of its own",
	"internal/audit": "each event of the record is a name of its own",
	"internal/tool":  "the loader of manifests is here until the registry needs it in a package of its own",
	"internal/call":  "each kind of event, step, cause and verdict of the protocol is a name of its own",
}

// TestSizes bounds lines, functions and exported names, and warns of large packages.
func TestSizes(t *testing.T) {
	lines, exported := map[string]int{}, map[string]int{}
	for name := range strings.FieldsSeq(git(t, "ls-files", "--cached", "--others", "--exclude-standard", "*.go")) {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			if n++; utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > maxLine {
				t.Errorf("%s:%d is longer than %d characters", name, n, maxLine)
			}
		}
		if !strings.HasSuffix(name, "_test.go") {
			dir := filepath.Dir(name)
			lines[dir] += n
			exported[dir] += names(t, name, text)
		}
	}
	for dir, n := range lines {
		if n > largePackage {
			t.Logf("warning: %s has %d lines, more than %d: does it hold two nouns?", dir, n, largePackage)
		}
		if n := exported[dir]; n > maxExported && larger[dir] == "" {
			t.Errorf("%s exports %d names, at most %d without a reason", dir, n, maxExported)
		}
	}
}

// names counts what a file exports, and looks at the length of its functions.
func names(t *testing.T, name string, text []byte) int {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if long := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; long > maxFunction && !table(f) {
			t.Errorf("%s: %s has %d lines, at most %d", name, f.Name, long, maxFunction)
		}
	}
	return exportedNames(file)
}

// exportedNames counts the constants, variables, types and functions that a file exports. Methods and fields do not
// count.
func exportedNames(file *ast.File) (n int) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				n++
			}
		case *ast.GenDecl:
			n += exportedIn(d)
		}
	}
	return n
}

func exportedIn(d *ast.GenDecl) (n int) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				n++
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

// table reports whether a function is one: it does nothing but return a literal, or starts with one that is most of it.
func table(d *ast.FuncDecl) bool {
	if d.Body == nil || len(d.Body.List) == 0 {
		return false
	}
	rows := 0
	for _, s := range d.Body.List {
		ast.Inspect(s, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok {
				rows = max(rows, len(lit.Elts))
			}
			return true
		})
	}
	return rows >= 6
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "git", args...)
}
