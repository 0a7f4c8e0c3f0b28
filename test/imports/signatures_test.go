package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// inSignatures are the internal packages whose types a public package may show: events of the call log are those of the
// protocol, and violations of a schema those of the validator. caller.New takes the connection of package toolbus.
var inSignatures = map[string]string{
	"caller":   "internal/client/link",
	"kv":       "internal/call",
	"envelope": "internal/encoding/jsonschema",
}

// TestPublicSignatures holds that public packages show no internal type: their users could not name it.
func TestPublicSignatures(t *testing.T) {
	for _, dir := range public(t) {
		set := token.NewFileSet()
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for at, imported := range shownInternals(f) {
				if imported != inSignatures[dir] {
					t.Errorf("%s: a public signature shows %s", set.Position(at), imported)
				}
			}
		}
	}
}

// shownInternals returns where the exported declarations of a file show a type of an internal package.
func shownInternals(f *ast.File) map[token.Pos]string {
	internal := map[string]string{} // by its name in the file
	for _, i := range f.Imports {
		imported, _ := strconv.Unquote(i.Path.Value)
		if at := within(imported); strings.HasPrefix(at, "internal/") {
			name := path.Base(at)
			if i.Name != nil {
				name = i.Name.Name
			}
			internal[name] = at
		}
	}
	shown := map[token.Pos]string{}
	var look func(n ast.Node)
	look = func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
						look(field.Type)
					}
				}
				return false
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] != "" {
					shown[n.Pos()] = internal[x.Name]
				}
			}
			return true
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				look(d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() {
					look(s.Type)
				}
			}
		}
	}
	return shown
}

// exportedReceiver reports whether a function is no method, or one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	at := d.Recv.List[0].Type
	if star, ok := at.(*ast.StarExpr); ok {
		at = star.X
	}
	if generic, ok := at.(*ast.IndexExpr); ok {
		at = generic.X
	}
	name, ok := at.(*ast.Ident)
	return ok && name.IsExported()
}
