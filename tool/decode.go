package tool

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
)

// A manifest is plain data: these bounds keep the YAML library away from its slow and deep cases.
const (
	maxTokens      = 20_000
	maxEntryColumn = 256 // of a "-": bounds sequences nested on one line
)

// jsonHint is for what YAML can write and JSON cannot.
const jsonHint = "write it as JSON would, or in quotes"

// place is a position in a manifest.
type place struct{ line, column int }

// decoder fills Go values from a YAML tree. It goes on after a problem, so that all are reported
// at once, and notes where every value stood, so that later checks can point at it.
type decoder struct {
	file     string
	places   map[string]place // of values, by path: limits.timeout_ms_max, errors[0].code
	keys     map[string]place // of their keys
	bad      map[string]bool  // paths with a problem; one problem per value is enough
	problems Problems
	body     ast.Node
}

// decode reads src into the struct that into points to. Field names are yaml tags; unknown and
// doubled fields, anchors, aliases and tags are refused.
func (d *decoder) decode(src []byte, into any) {
	if len(src) > MaxManifest {
		d.report(place{}, fmt.Sprintf("the file is larger than %d bytes", MaxManifest), "move large examples out of the manifest")
		return
	}
	text := strings.TrimPrefix(string(src), "\ufeff") // some editors write the mark
	if !utf8.ValidString(text) {
		d.report(firstInvalid(text), "the file is not UTF-8", "save it as UTF-8")
		return
	}
	tokens := lexer.Tokenize(text)
	if !d.plain(tokens) {
		return
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(text, err)
		return
	}
	if d.single(file.Docs) {
		d.body = file.Docs[0].Body
		d.value("", d.body, reflect.ValueOf(into).Elem())
	}
}

// firstInvalid is the place of the first byte that is not UTF-8.
func firstInvalid(text string) place {
	valid := text
	for i := range text {
		if r, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			valid = text[:i]
			break
		}
	}
	line := valid[strings.LastIndexByte(valid, '\n')+1:]
	return place{line: strings.Count(valid, "\n") + 1, column: utf8.RuneCountInString(line) + 1}
}

// single says whether there is one document, and something in it.
func (d *decoder) single(docs []*ast.DocumentNode) bool {
	switch {
	case len(docs) > 1:
		at := docs[1].Start
		if at == nil && docs[1].Body != nil { // it follows the end of the first
			at = docs[1].Body.GetToken()
		}
		d.report(placeOf(at), "a second YAML document begins", "a file holds one manifest; another tool has another folder")
		return false
	case len(docs) == 0 || docs[0].Body == nil:
		d.report(place{1, 1}, "the manifest is empty", "start from the manifest of another tool")
		return false
	}
	return true
}

// plain says whether the tokens are few, shallow, and free of anchors, aliases and tags.
func (d *decoder) plain(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		d.report(place{}, fmt.Sprintf("the file has more than %d YAML tokens", maxTokens), "move large examples out of the manifest")
		return false
	}
	depth := 0
	for _, t := range tokens {
		at := placeOf(t)
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.DirectiveType, token.MappingKeyType:
			d.report(at, fmt.Sprintf("%q is not allowed in a manifest", t.Value), "manifests are plain data: no anchors, aliases, tags, merge or complex keys")
			return false
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth > ijson.MaxDepth || t.Type == token.SequenceEntryType && at.column > maxEntryColumn {
			d.report(at, "values are nested too deeply", fmt.Sprintf("at most %d levels, and fewer on one line", ijson.MaxDepth))
			return false
		}
	}
	return true
}

// syntax reports what the YAML parser said, without its picture of the source. Of a tab it says many
// things, most of which name something else.
func (d *decoder) syntax(text string, err error) {
	const hint = "look for a bracket or quote that is not closed, a wrong indent, or a value that needs quotes"
	var known yaml.Error
	if !errors.As(err, &known) {
		d.report(place{1, 1}, "not YAML: "+firstLine(err.Error()), hint)
		return
	}
	at := placeOf(known.GetToken())
	if tabbed(text, at.line) {
		d.report(at, "the line is indented with a tab", "indent with spaces")
		return
	}
	d.report(at, known.GetMessage(), hint)
}

// tabbed says whether the indent of a line has a tab in it.
func tabbed(text string, line int) bool {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return false
	}
	indent := lines[line-1][:len(lines[line-1])-len(strings.TrimLeft(lines[line-1], " \t"))]
	return strings.Contains(indent, "\t")
}

// value decodes one node into v and remembers where it stood.
func (d *decoder) value(path string, n ast.Node, v reflect.Value) {
	d.places[path] = startOf(n)
	if v.Type() == reflect.TypeFor[jsontext.Value]() {
		d.json(path, n, v)
		return
	}
	switch v.Kind() {
	case reflect.String:
		if s, ok := text(n); ok {
			v.SetString(s)
			return
		}
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return
		}
	case reflect.Int64:
		if i, ok := integer(n); ok {
			v.SetInt(i)
			return
		}
	case reflect.Slice:
		if s, ok := n.(*ast.SequenceNode); ok {
			d.sequence(path, s, v)
			return
		}
	case reflect.Map:
		if entries, ok := mapping(n); ok {
			d.mapping(path, entries, v)
			return
		}
	case reflect.Struct:
		if entries, ok := mapping(n); ok {
			d.structure(path, entries, v)
			return
		}
	}
	d.fail(path, fmt.Sprintf("%s must be %s, not %s", named(path), wanted(v.Kind()), found(n)), hintFor(v.Kind(), n))
}

func (d *decoder) sequence(path string, s *ast.SequenceNode, v reflect.Value) {
	v.Set(reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values)))
	for i, item := range s.Values {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i))
	}
}

func (d *decoder) mapping(path string, entries []*ast.MappingValueNode, v reflect.Value) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(entries)))
	d.each(path, entries, func(key string, value ast.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(join(path, key), value, item)
		v.SetMapIndex(reflect.ValueOf(key), item)
	})
}

func (d *decoder) structure(path string, entries []*ast.MappingValueNode, v reflect.Value) {
	fields := fieldNames(v.Type())
	d.each(path, entries, func(key string, value ast.Node) {
		i := slices.Index(fields, key)
		if i < 0 {
			d.failKey(join(path, key), fmt.Sprintf("unknown field %q", key), didYouMean(key, fields))
			return
		}
		d.value(join(path, key), value, v.Field(i))
	})
}

// each visits the entries of a mapping once per key and notes where each key stands.
func (d *decoder) each(path string, entries []*ast.MappingValueNode, visit func(key string, value ast.Node)) {
	seen := make(map[string]place, len(entries))
	for _, entry := range entries {
		at := placeOf(entry.Key.GetToken())
		key, ok := text(entry.Key)
		if !ok {
			d.report(at, "a key must be a string", "write it in quotes")
			continue
		}
		if first, double := seen[key]; double {
			d.report(at, fmt.Sprintf("%q is given twice", join(path, key)), fmt.Sprintf("it stands in line %d already", first.line))
			continue
		}
		seen[key] = at
		d.keys[join(path, key)] = at
		visit(key, entry.Value)
	}
}

// json decodes a node into its JSON form: examples are JSON values written as YAML.
func (d *decoder) json(path string, n ast.Node, v reflect.Value) {
	plain, ok := d.plainValue(path, n)
	if !ok {
		d.bad[path] = true
		return
	}
	raw, err := json.Marshal(plain, json.Deterministic(true))
	if err != nil {
		d.fail(path, fmt.Sprintf("%s is not a JSON value", named(path)), jsonHint)
		return
	}
	v.SetBytes(raw)
}

// plainValue turns a node into nil, bool, number, string, slice or map.
func (d *decoder) plainValue(path string, n ast.Node) (any, bool) {
	if s, ok := text(n); ok {
		return s, true
	}
	if entries, ok := mapping(n); ok {
		object, complete := make(map[string]any, len(entries)), true
		d.each(path, entries, func(key string, value ast.Node) {
			item, ok := d.plainValue(join(path, key), value)
			object[key], complete = item, complete && ok
		})
		return object, complete
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.BoolNode:
		return n.Value, true
	case *ast.IntegerNode:
		return n.Value, true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.SequenceNode:
		items, complete := make([]any, len(n.Values)), true
		for i, value := range n.Values {
			item, ok := d.plainValue(fmt.Sprintf("%s[%d]", path, i), value)
			items[i], complete = item, complete && ok
		}
		return items, complete
	}
	d.report(startOf(n), fmt.Sprintf("%s has no JSON form", found(n)), jsonHint)
	return nil, false
}

// has says whether the manifest names path.
func (d *decoder) has(path string) bool {
	_, ok := d.places[path]
	return ok
}

// fail reports a problem with the value at path, or at its nearest parent that was written.
func (d *decoder) fail(path, message, hint string) {
	at, ok := d.places[path]
	d.bad[path] = true
	for p := path; !ok && p != ""; at, ok = d.places[p] {
		p = p[:max(strings.LastIndexAny(p, ".["), 0)]
	}
	d.report(at, message, hint)
}

// failKey reports a problem with the key at path.
func (d *decoder) failKey(path, message, hint string) {
	d.bad[path] = true
	d.report(d.keys[path], message, hint)
}

func (d *decoder) report(at place, message, hint string) {
	d.problems = append(d.problems, Problem{File: d.file, Line: at.line, Column: at.column, Message: message, Hint: hint})
}

// text returns the value of a string node, plain, quoted or block.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

func integer(n ast.Node) (int64, bool) {
	if i, ok := n.(*ast.IntegerNode); ok {
		switch v := i.Value.(type) {
		case int64:
			return v, true
		case uint64:
			return int64(v), v <= math.MaxInt64
		}
	}
	return 0, false
}

// mapping returns the entries of a mapping node; the parser has a second form for one entry.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func fieldNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("yaml")
	}
	return names
}

// startOf returns where a node begins; the parser puts a block mapping at its first colon.
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

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func named(path string) string {
	if path == "" {
		return "the manifest"
	}
	return path
}

func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "a mapping"
}

func found(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	}
	return "something else"
}

func hintFor(k reflect.Kind, n ast.Node) string {
	if _, null := n.(*ast.NullNode); null {
		return "give it a value or leave it out"
	}
	_, isMap := mapping(n)
	switch {
	case k == reflect.String && (isMap || found(n) == "a list"):
		return "write one text, in quotes if it has brackets or a colon"
	case k == reflect.String:
		return "write it in quotes"
	case k == reflect.Bool:
		return "no quotes, and neither yes nor no"
	case k == reflect.Int64:
		return "digits alone: no unit, quotes, point or exponent"
	case k == reflect.Slice:
		return "write it in brackets: [a, b]"
	}
	return "write it as name: value, one to a line and indented"
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
