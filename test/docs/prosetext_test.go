package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// kind is where a passage stands.
type kind string

const (
	comment     kind = "comments"
	literal     kind = "strings"
	markdown    kind = "markdown"
	declaration kind = "declarations"
)

// passage is a text without its code: a paragraph, a list item, or a string literal.
type passage struct {
	kind  kind
	where string
	text  string
	name  string // of a declaration: the exported name
	list  bool   // a list item
	table bool   // a row of a table
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`|\\[[\\w.*]+\\]")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	listItem   = regexp.MustCompile(`^\s*([-*]|[0-9]+\.) `)
	codeLine   = regexp.MustCompile(`^(\t|    )`)
)

// passagesOf returns the passages of all Go files without tests, and of all Markdown files.
func passagesOf(t *testing.T) (all []passage) {
	t.Helper()
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			all = append(all, goPassages(t, name)...)
		}
	}
	for _, name := range files(t, ".md") {
		all = append(all, paragraphs(markdown, name, fenced.ReplaceAllString(read(t, name), "\n\n"))...)
	}
	return all
}

func goPassages(t *testing.T, name string) (all []passage) {
	t.Helper()
	fset := token.NewFileSet()
	mode := parser.ParseComments | parser.SkipObjectResolution
	f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Comments {
		where := fmt.Sprintf("%s:%d", name, fset.Position(c.Pos()).Line)
		all = append(all, paragraphs(comment, where, c.Text())...)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil // not prose
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind == token.STRING && err == nil && strings.Contains(text, " ") {
				where := fmt.Sprintf("%s:%d", name, fset.Position(n.Pos()).Line)
				all = append(all, passage{kind: literal, where: where, text: inlineCode.ReplaceAllString(text, "X")})
			}
		}
		return true
	})
	for _, d := range f.Decls {
		all = append(all, documented(name, d)...)
	}
	return all
}

// documented returns the comments of exported functions, types and single values, each with its name. The comment of
// a group documents the group.
func documented(file string, d ast.Decl) (all []passage) {
	add := func(name *ast.Ident, doc *ast.CommentGroup) {
		if name.IsExported() && doc != nil {
			p := passage{kind: declaration, where: file, text: doc.Text(), name: name.Name}
			all = append(all, p)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		add(d.Name, d.Doc)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil && !d.Lparen.IsValid() {
					s.Doc = d.Doc
				}
				add(s.Name, s.Doc)
			case *ast.ValueSpec:
				if !d.Lparen.IsValid() {
					add(s.Names[0], d.Doc)
				}
			}
		}
	}
	return all
}

// paragraphs splits a text into paragraphs, list items and rows of tables, and leaves out headings and indented code.
func paragraphs(k kind, where, text string) (all []passage) {
	var lines []string
	list := false
	end := func() {
		if len(lines) > 0 {
			text := linkTarget.ReplaceAllString(strings.Join(lines, "\n"), "]")
			all = append(all, passage{kind: k, where: where, text: inlineCode.ReplaceAllString(text, "X"), list: list})
		}
		lines, list = nil, false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		item := listItem.FindString(line)
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			end()
		case strings.HasPrefix(line, "|"):
			end()
			text := linkTarget.ReplaceAllString(inlineCode.ReplaceAllString(line, "X"), "]")
			all = append(all, passage{kind: k, where: where, text: text, table: true})
		case codeLine.MatchString(line) && !list && item == "":
		default:
			if item != "" {
				end()
				list = true
			}
			lines = append(lines, strings.TrimSpace(line[len(item):]))
		}
	}
	end()
	return all
}

// sentences splits a text into sentences, and each into its words. A sentence ends at a full stop, question mark or
// exclamation mark, if the next word does not begin with a small letter.
func sentences(text string) (all [][]string) {
	words := strings.Fields(text)
	start := 0
	for i, w := range words {
		ends := strings.ContainsAny(lastMark(w), ".?!")
		if i == len(words)-1 || ends && !startsSmall(words[i+1]) {
			all = append(all, words[start:i+1])
			start = i + 1
		}
	}
	return all
}

// lastMark returns the last character of a word, without quotes and brackets behind it.
func lastMark(word string) string {
	word = strings.TrimRight(word, `"')*_`)
	r, _ := utf8.DecodeLastRuneInString(word)
	return string(r)
}

func startsSmall(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.IsLower(r)
}
