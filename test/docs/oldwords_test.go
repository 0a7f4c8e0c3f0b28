package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wordUse is a place that uses a word of a kind, old or not.
type wordUse struct{ kind, text, file, where string }

// TestOldWords fails where an old word is used again: in Go without tests, in documentation but for the changelog, and
// in what builds and deploys.
func TestOldWords(t *testing.T) {
	var uses []wordUse
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			uses = append(uses, goUses(t, name, read(t, name))...)
		}
		uses = append(uses, wordUse{fileWord, name, name, name})
	}
	texts := files(t, ".md", ".service", ".sh", ".conf", ".yml", ".yaml")
	scripts := []string{"Makefile", ".ci/run", ".ci/test", ".ci/race", ".ci/fuzz", "test/conformance/run.sh"}
	for _, name := range append(texts, scripts...) {
		if path.Base(name) == "CHANGELOG.md" {
			continue
		}
		for i, line := range strings.Split(read(t, name), "\n") {
			uses = append(uses, wordUse{flagWord, line, name, fmt.Sprintf("%s:%d", name, i+1)})
		}
	}
	if len(uses) < 10_000 {
		t.Fatalf("found only %d uses of words", len(uses))
	}
	for _, found := range usesOfOldWords(append(oldWords(), oldNames()...), uses) {
		t.Error(found)
	}
}

func usesOfOldWords(words []oldWord, uses []wordUse) (found []string) {
	for _, w := range words {
		is := w.matcher()
		for _, u := range uses {
			if u.kind == w.kind && !slices.Contains(w.except, u.file) && is(u.text) {
				found = append(found, fmt.Sprintf("%s: the %s %q is %q now", u.where, w.kind, w.old, w.now))
			}
		}
	}
	return found
}

func (w oldWord) matcher() func(text string) bool {
	switch w.kind {
	case flagWord:
		return regexp.MustCompile(`(^|[^\w-])--` + regexp.QuoteMeta(w.old) + `($|[^\w-])`).MatchString
	case messageWord:
		return regexp.MustCompile(`\b` + regexp.QuoteMeta(w.old) + `\b`).MatchString
	case fileWord, identifierWord:
		return func(text string) bool {
			return text == w.old || strings.HasSuffix(text, map[string]string{fileWord: "/", identifierWord: "."}[w.kind]+w.old)
		}
	}
	return func(text string) bool { return text == w.old }
}

// goUses returns the uses of words in a Go file.
func goUses(t *testing.T, name, source string) (uses []wordUse) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join(root, name), source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	add := func(kind string, at ast.Node, text string) {
		uses = append(uses, wordUse{kind, text, name, fmt.Sprintf("%s:%d", name, fset.Position(at.Pos()).Line)})
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, ok := stringOf(n); ok {
				add(flagWord, n, text) // as in help, in errors, and in arguments of processes
			}
		case *ast.CallExpr:
			callUses(n, add)
		}
		return true
	})
	for _, d := range f.Decls {
		declarationUses(f.Name.Name, d, add)
	}
	return uses
}

var (
	flagCall = regexp.MustCompile(`^(\w*Var|\w*VarP|VarPF|Func|BoolFunc|Lookup|Changed|given|MarkHidden|completeFlag)$`)
	logCall  = regexp.MustCompile(`^((Debug|Info|Warn|Error|Log)(Context)?|complain)$`)
)

// callUses adds the flags that a call names, and the message and the fields that it logs.
func callUses(call *ast.CallExpr, add func(kind string, at ast.Node, text string)) {
	name := calledName(call)
	if flagCall.MatchString(name) {
		for _, a := range call.Args[:min(2, len(call.Args))] {
			if text, ok := stringOf(a); ok {
				add(flagWord, a, "--"+text)
			}
		}
	}
	if !logCall.MatchString(name) {
		return
	}
	logged := false
	for _, a := range call.Args {
		text, ok := stringOf(a)
		switch message := text + messageOf(a); {
		case logged && ok:
			add(fieldWord, a, text)
		case message != "":
			logged = true
			add(messageWord, a, message)
		}
	}
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func stringOf(e ast.Expr) (text string, ok bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// messageOf returns the literals of a concatenation.
func messageOf(e ast.Expr) string {
	sum, ok := e.(*ast.BinaryExpr)
	if !ok {
		return ""
	}
	left, _ := stringOf(sum.X)
	right, _ := stringOf(sum.Y)
	return cmp.Or(left, messageOf(sum.X)) + right
}

// declarationUses adds what a declaration declares: functions, methods, types, constants, variables and fields.
func declarationUses(pkg string, d ast.Decl, add func(kind string, at ast.Node, text string)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		in := pkg
		if d.Recv != nil {
			in += "." + strings.TrimLeft(receiverType(d.Recv.List[0].Type), "*")
		}
		add(identifierWord, d, in+"."+d.Name.Name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					add(identifierWord, n, pkg+"."+n.Name)
				}
			case *ast.TypeSpec:
				add(identifierWord, s, pkg+"."+s.Name.Name)
				memberUses(pkg+"."+s.Name.Name, s.Type, add)
			}
		}
	}
}

func memberUses(in string, of ast.Expr, add func(kind string, at ast.Node, text string)) {
	var members *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		members = of.Fields
	case *ast.InterfaceType:
		members = of.Methods
	default:
		return
	}
	for _, m := range members.List {
		for _, n := range m.Names {
			add(identifierWord, n, in+"."+n.Name)
		}
	}
}

// receiverType returns the name of the type of a receiver.
func receiverType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestOldWordsAreFound(t *testing.T) {
	const source = "package p\n" + `
type Desk struct{ Told string }
func (d *Desk) Ask() {
	f.StringVar(&s, "state", "", "")
	cli.OldFlag(f, "state", flag)
	use("start it with --state DIR, not with --state-dir")
	log.Warn("work " + "handed back", "told", 1, "state", "x")
	log.ErrorContext(ctx, "panic", "in", "a part that was handed back")
	use("in", "told", "handed back")
}`
	words := []oldWord{
		{"state", flagWord, "--data-dir", nil}, {"handed back", messageWord, "nak", nil}, {"told", fieldWord, "lease", nil},
		{"in", fieldWord, "operation", nil}, {"Desk", identifierWord, "Server", nil},
		{"p.Desk.Ask", identifierWord, "Request", nil}, {"Desk.Told", identifierWord, "Phase", nil},
		{"As", identifierWord, "not found", nil}, {"q.Desk", identifierWord, "not found", nil},
		{"desk.go", fileWord, "server.go", nil}, {"esk.go", fileWord, "not found", nil},
		{"panic", messageWord, "excepted", []string{"a/desk.go"}},
	}
	uses := append(goUses(t, "a/desk.go", source), wordUse{fileWord, "a/desk.go", "a/desk.go", "a/desk.go"})
	want := []string{
		"5 flag state", "7 flag state", "8 log message handed back", "8 log field told", "9 log field in",
		"3 identifier Desk", "4 identifier p.Desk.Ask", "3 identifier Desk.Told", "a/desk.go file desk.go",
	}
	var got []string
	place := regexp.MustCompile(`^(?:a/desk.go:)?(\S+): the ([a-z ]+) "(.*)" is ".*" now$`)
	for _, found := range usesOfOldWords(words, uses) {
		got = append(got, place.ReplaceAllString(found, "$1 $2 $3"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%q, want\n%q", got, want)
	}
}
