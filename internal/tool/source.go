package tool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// These bounds keep the YAML library from inputs that it parses slowly or with deep recursion.
const (
	maxTokens         = 20_000    // of a manifest
	maxDocumentTokens = 1_000_000 // of another document; a registry of 5,000 tools has a third
	maxEntryColumn    = 256       // of a "-": bounds sequences nested on one line
)

// words holds the texts of problems that depend on the kind of a source, and the bound of its tokens.
type words struct {
	name, one, start, shorten string
	tokens                    int
}

func manifestWords() words {
	return words{
		"manifest", "a file holds one manifest; another tool has another folder", "start from the manifest of another tool",
		"move large examples out of the manifest", maxTokens,
	}
}

func documentWords() words {
	return words{
		"document", "a file holds one document",
		"`toolbus policy init` writes a policy set, see docs/policy.md; docs/manifest.md has defaults.yaml",
		"name fewer things in one document", maxDocumentTokens,
	}
}

// place is a position in a manifest.
type place struct{ line, column int }

// source is a manifest as written: its value, the position of each part, and its problems. Reading continues after a
// problem, so that all are reported at once.
type source struct {
	file     string
	words    words
	text     string // without byte order mark
	tree     any    // nil, bool, number, string, []any or map[string]any
	values   map[jsontext.Pointer]place
	keys     map[jsontext.Pointer]place
	bad      map[jsontext.Pointer]bool             // values with a reported problem; fail reports one per value
	written  map[jsontext.Pointer]jsontext.Pointer // the alias that the author wrote, by the field that it means
	problems Problems
}

func newSource(file string, of words) *source {
	return &source{
		file: file, words: of, values: map[jsontext.Pointer]place{}, keys: map[jsontext.Pointer]place{},
		bad: map[jsontext.Pointer]bool{}, written: map[jsontext.Pointer]jsontext.Pointer{},
	}
}

// parse reads the YAML and reports whether it has a value. It refuses anchors, aliases and tags. A duplicate key is a
// problem, but parsing continues.
func (s *source) parse(raw []byte) bool {
	text := strings.TrimPrefix(string(raw), "\ufeff") // some editors write a byte order mark
	s.text = text
	if valid, _, bad := strings.Cut(strings.ToValidUTF8(text, "\xff"), "\xff"); bad {
		line := valid[strings.LastIndexByte(valid, '\n')+1:]
		at := place{line: strings.Count(valid, "\n") + 1, column: utf8.RuneCountInString(line) + 1}
		s.report(at, "the file is not UTF-8", "save it as UTF-8")
		return false
	}
	tokens := lexer.Tokenize(text)
	if !s.plain(tokens) {
		return false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.syntax(text, err)
		return false
	}
	if !s.single(file.Docs) {
		return false
	}
	s.tree = s.value("", file.Docs[0].Body)
	return true
}

// single reports whether the file holds exactly one document, and that document is not empty.
func (s *source) single(docs []*ast.DocumentNode) bool {
	switch {
	case len(docs) > 1:
		at := docs[1].Start
		if at == nil && docs[1].Body != nil { // the document has no start marker of its own
			at = docs[1].Body.GetToken()
		}
		s.report(placeOf(at), "a second YAML document begins", s.words.one)
		return false
	case len(docs) == 0 || docs[0].Body == nil:
		s.report(place{1, 1}, "the "+s.words.name+" is empty", s.words.start)
		return false
	}
	return true
}

// plain reports whether the tokens are within the bounds and contain no anchors, aliases, tags, directives or complex
// keys.
func (s *source) plain(tokens token.Tokens) bool {
	if len(tokens) > s.words.tokens {
		s.report(place{}, fmt.Sprintf("the file has more than %d YAML tokens", s.words.tokens), s.words.shorten)
		return false
	}
	depth := 0
	for _, t := range tokens {
		at := placeOf(t)
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.DirectiveType, token.MappingKeyType:
			s.report(at, fmt.Sprintf("%q is not allowed in a %s", t.Value, s.words.name),
				s.words.name+"s are plain data: no anchors, aliases, tags, merge or complex keys")
			return false
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth > ijson.MaxDepth || t.Type == token.SequenceEntryType && at.column > maxEntryColumn {
			s.report(at, "values are nested too deeply", fmt.Sprintf("at most %d levels, and fewer on one line", ijson.MaxDepth))
			return false
		}
	}
	return true
}

// syntax reports the message of the YAML parser without its excerpt of the source. If the line is indented with a tab,
// it reports the tab instead, because the parser's messages for tabs are misleading.
func (s *source) syntax(text string, err error) {
	at, message := place{1, 1}, "not YAML: "+strings.SplitN(err.Error(), "\n", 2)[0]
	var known yaml.Error
	if errors.As(err, &known) {
		at, message = placeOf(known.GetToken()), known.GetMessage()
	}
	lines := strings.Split(text, "\n")
	line := lines[min(max(at.line, 1), len(lines))-1]
	if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
		s.report(at, "the line is indented with a tab", "indent with spaces")
		return
	}
	s.report(at, message, "look for a bracket or quote that is not closed, a wrong indent, or a value that needs quotes")
}

// value converts a node to a JSON value and records its position.
func (s *source) value(at jsontext.Pointer, n ast.Node) any {
	s.values[at] = startOf(n)
	if entries, ok := mapping(n); ok {
		return s.object(at, entries)
	}
	if list, ok := n.(*ast.SequenceNode); ok {
		items := make([]any, len(list.Values))
		for i, item := range list.Values {
			items[i] = s.value(at.AppendToken(strconv.Itoa(i)), item)
		}
		return items
	}
	if value, ok := scalar(n); ok {
		return value
	}
	s.fail(at, "a number has no JSON form", "write it as JSON would, or in quotes") // infinity or NaN
	return nil
}

// scalar returns the value of a node that is neither a list nor a mapping. ok is false if JSON cannot represent it.
func scalar(n ast.Node) (value any, ok bool) {
	switch n := n.(type) {
	case *ast.InfinityNode, *ast.NanNode:
		return nil, false
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return plainScalar(n.GetToken().Value)
	case *ast.StringNode:
		if n.Token.Type == token.StringType {
			return plainScalar(n.Value)
		}
		return n.Value, true
	case ast.ScalarNode:
		return n.GetValue(), true
	}
	return nil, false
}

// object converts the entries of a mapping. It reports duplicate keys and keys that are not strings, and leaves them
// out.
func (s *source) object(at jsontext.Pointer, entries []*ast.MappingValueNode) map[string]any {
	object := make(map[string]any, len(entries))
	for _, entry := range entries {
		where := placeOf(entry.Key.GetToken())
		value, _ := scalar(entry.Key)
		key, isText := value.(string)
		path := at.AppendToken(key)
		first, double := s.keys[path]
		switch {
		case !isText:
			s.report(where, "a key must be a string", "write it in quotes")
		case double:
			s.report(where, fmt.Sprintf("%q is given twice", named(path)),
				fmt.Sprintf("it stands in line %d already", first.line))
		default:
			s.keys[path] = where
			object[key] = s.value(path, entry.Value)
		}
	}
	return object
}

// at returns the value at a pointer.
func (s *source) at(p jsontext.Pointer) any {
	value := s.tree
	for token := range p.Tokens() {
		switch in := value.(type) {
		case map[string]any:
			value = in[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(in) {
				return nil
			}
			value = in[i]
		default:
			return nil
		}
	}
	return value
}

// leaveOut removes a member from its mapping, so that the rest can be decoded. For an item of a list it removes the
// whole list.
func (s *source) leaveOut(p jsontext.Pointer) {
	switch in := s.at(p.Parent()).(type) {
	case map[string]any:
		delete(in, p.LastToken())
	case []any:
		if p != "" {
			s.leaveOut(p.Parent())
		}
	}
}

// fail reports a problem with the value at a pointer, at most one per pointer. If the manifest does not contain the
// value, the position is that of its nearest parent.
func (s *source) fail(at jsontext.Pointer, message, hint string) {
	if s.bad[at] {
		return
	}
	s.bad[at] = true
	s.report(s.placeOf(at), message, hint)
}

// faulty reports whether the value at a pointer, or one within it, has a problem.
func (s *source) faulty(at jsontext.Pointer) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(s.bad)), at.Contains)
}

// placeOf returns the position of the value at a pointer, or that of its nearest parent.
func (s *source) placeOf(at jsontext.Pointer) place {
	where, ok := s.values[at]
	for p := at; !ok && p != ""; where, ok = s.values[p] {
		p = p.Parent()
	}
	return where
}

func (s *source) report(at place, message, hint string) {
	s.mark(at, Problem{Message: message, Hint: hint})
}

func (s *source) warn(at place, message, hint string) {
	s.mark(at, Problem{Severity: Warning, Message: message, Hint: hint})
}

// mark adds a problem at a place in the file.
func (s *source) mark(at place, p Problem) {
	p.File, p.Line, p.Column = s.file, at.line, at.column
	s.problems = append(s.problems, p)
}

// mapping returns the entries of a mapping node. The parser has a separate node type for a mapping with one entry.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// startOf returns the position of a node. The parser gives a block mapping the position of its first colon.
func startOf(n ast.Node) place {
	if entries, ok := mapping(n); ok && len(entries) > 0 && n.GetToken().Type == token.MappingValueType {
		return placeOf(entries[0].Key.GetToken())
	}
	return placeOf(n.GetToken())
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{line: t.Position.Line, column: t.Position.Column}
}
