package imports_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// shown are the packages whose functions TestExamples looks for, and their names in Examples.
var shown = map[string]string{".": "toolbus", "admin": "admin", "program": "program", "toolbustest": "toolbustest"}

// TestExamples finds each exported function of the packages that programs start from in an Example of its package that
// `go test` runs: one with an output comment. Methods do not count.
func TestExamples(t *testing.T) {
	for path, name := range shown {
		called := calledInExamples(t, path, name)
		for _, f := range functionsOf(t, path) {
			if !called[f] {
				t.Errorf("no Example with an output comment in %s calls %s.%s: write one", path, name, f)
			}
		}
	}
}

// functionsOf returns the exported functions of a package.
func functionsOf(t *testing.T, path string) (functions []string) {
	t.Helper()
	for _, file := range parsed(t, path, false) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
				functions = append(functions, f.Name.Name)
			}
		}
	}
	return functions
}

// calledInExamples returns the names that the Examples of a package with an output comment call as functions of name.
func calledInExamples(t *testing.T, path, name string) map[string]bool {
	t.Helper()
	called := map[string]bool{}
	for _, file := range parsed(t, path, true) {
		for _, e := range doc.Examples(file) {
			if e.Output == "" && !e.EmptyOutput {
				continue
			}
			ast.Inspect(e.Code, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					called[calledOf(call, name)] = true
				}
				return true
			})
		}
	}
	return called
}

// calledOf returns the function of the package that a call calls, also with type arguments, and "" if it calls another.
func calledOf(call *ast.CallExpr, pkg string) string {
	fun := call.Fun
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	f, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if of, ok := f.X.(*ast.Ident); !ok || of.Name != pkg {
		return ""
	}
	return f.Sel.Name
}

// parsed returns the files of a package, or those of its tests.
func parsed(t *testing.T, path string, tests bool) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("../..", path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
