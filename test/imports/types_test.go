package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The largest product type. A type beyond it has more than one noun: split it, so that each state has an owner with
// few methods.
const (
	maxMethods = 40
	maxFields  = 20
)

// documents names the types with more fields, which have one for each member of a document or of the wire.
var documents = map[string]string{
	".Tool":                  "is the declaration of a tool in Go: a field for each member of a manifest",
	"envelope.ToolInfo":      "describes a tool on the wire: a field for each member",
	"envelope.TraceEvent":    "describes an event of a call on the wire: a field for each member",
	"internal/audit.Record":  "is an audit record: a field for each column",
	"internal/tool.Manifest": "is a manifest: a field for each member",
}

// unmeasured is code that only runs, measures, attacks or tests the product.
const unmeasured = "test/... cmd/toolbus-lab internal/bench/... internal/chaos/... internal/demo/... " +
	"internal/natsserver/..."

// size is how many methods and fields a type has, in all files of its package.
type size struct{ methods, fields int }

// TestTypes bounds the methods and fields of types. An embedded type counts as one field, and its methods count where
// they are declared.
func TestTypes(t *testing.T) {
	types := map[string]*size{}
	for name := range strings.FieldsSeq(git(t, "ls-files", "--cached", "--others", "--exclude-standard", "*.go")) {
		dir := filepath.Dir(name)
		if strings.HasSuffix(name, "_test.go") || matches(unmeasured, dir) || strings.HasSuffix(dir, "test") ||
			strings.Contains(name, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		sizesIn(file, dir, types)
	}
	for name, n := range types {
		if n.methods > maxMethods {
			t.Errorf("%s has %d methods, at most %d: does it hold two nouns?", name, n.methods, maxMethods)
		}
		if n.fields > maxFields && documents[name] == "" {
			t.Errorf("%s has %d fields, at most %d: does it hold two nouns?", name, n.fields, maxFields)
		}
		if n.fields <= maxFields && documents[name] != "" {
			t.Errorf("%s has %d fields only: remove it from the list of this test", name, n.fields)
		}
	}
	for name := range documents {
		if types[name] == nil {
			t.Errorf("%s is not a type: remove it from the list of this test", name)
		}
	}
}

// sizesIn adds the methods and fields that a file declares.
func sizesIn(file *ast.File, dir string, types map[string]*size) {
	sizeOf := func(name string) *size {
		name = strings.TrimPrefix(dir, ".") + "." + name
		if types[name] == nil {
			types[name] = &size{}
		}
		return types[name]
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				sizeOf(receiver(n.Recv.List[0].Type)).methods++
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					sizeOf(n.Name.Name).fields += max(1, len(f.Names))
				}
			}
		}
		return true
	})
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
