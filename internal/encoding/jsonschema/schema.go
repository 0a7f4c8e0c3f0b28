package jsonschema

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Schema is a compiled JSON Schema (2020-12, formats asserted). It is immutable and safe for
// concurrent use.
type Schema struct {
	raw      []byte
	whole    []byte // with the documents that raw refers to
	compiled *jsonschema.Schema
	counters *counters // nil where the schema refers to nothing, and so not to itself
	accepter *accepter // may be nil
}

// Violation is one broken rule of a schema, or of JSON that all parsers read alike: where (a JSON pointer), which
// rule, and what it demands. Its texts are bounded, and never repeat a value, which may be a secret.
type Violation = ijson.Violation

// MaxBytes is the largest document of a schema, in bytes.
const MaxBytes = 1 << 20

// schemaBase is where schemas live for the compiler, which wants absolute addresses.
const schemaBase = "toolbus:///"

// Compile compiles raw, which is known by name, a relative path. A reference to another
// document is resolved against name and read with load; the path that load gets never leaves
// the root. Without load there are no other documents. Nothing is ever fetched from a network.
// All documents together must make one (see [Schema.Whole]).
func Compile(name string, raw []byte, load func(ref string) ([]byte, error)) (*Schema, error) {
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("schema %s: larger than %d bytes", name, MaxBytes)
	}
	doc, err := schemaDocument(raw)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	others := map[string][]byte{}
	at := schemaBase + (&url.URL{Path: strings.TrimPrefix(name, "/")}).EscapedPath()
	compiled, err := compileAt(at, doc, loader{load, others}, nil)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	if len(others) == 0 {
		raw = bytes.Clone(raw)
		s := &Schema{raw: raw, whole: raw, compiled: compiled, accepter: newAccepter(doc)}
		if bytes.Contains(raw, []byte(`ef"`)) { // $ref, $dynamicRef and $recursiveRef
			s.counters = newCounters(func(c *counted) (err error) {
				c.schema, err = compileAt(at, doc, loader{}, c)
				return err
			})
		}
		return s, nil
	}
	whole, err := bundle(at, raw, others)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	s, err := Compile(name, whole, nil) // as callers do: this is what they get
	if err != nil {
		return nil, fmt.Errorf("with what it refers to, %w", err)
	}
	s.raw = bytes.Clone(raw)
	return s, nil
}

// compileAt compiles the document at an address. What it refers to is read with l, and its steps are counted by
// steps, if that is not nil.
func compileAt(at string, doc any, l loader, steps *counted) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(l)
	if steps != nil {
		c.RegisterVocabulary(&jsonschema.Vocabulary{
			URL:     schemaBase + "steps",
			Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return steps, nil },
		})
		c.AssertVocabs()
	}
	if err := c.AddResource(at, doc); err != nil {
		return nil, err
	}
	return c.Compile(at)
}

func schemaDocument(raw []byte) (any, error) {
	if v := ijson.Check(raw); v != nil {
		return nil, fmt.Errorf("%s: %s", v[0].Pointer, v[0].Message)
	}
	return decodeAny(raw)
}

// loader reads the documents that a schema refers to, and keeps them by address.
type loader struct {
	load   func(ref string) ([]byte, error)
	loaded map[string][]byte
}

// Load implements [jsonschema.URLLoader].
func (l loader) Load(address string) (any, error) {
	path, ours := strings.CutPrefix(address, schemaBase)
	path, err := url.PathUnescape(path)
	if err != nil || !ours {
		return nil, fmt.Errorf("%s is outside of the tool and is not fetched", address)
	}
	if l.load == nil {
		return nil, errors.New("no other documents may be referred to")
	}
	raw, err := l.load(path)
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("larger than %d bytes", MaxBytes)
	}
	l.loaded[address] = raw
	return schemaDocument(raw)
}

// Raw returns the schema as it was given. The caller must not change it.
func (s *Schema) Raw() []byte { return s.raw }

// Whole returns the schema as one document, for callers that have no other: what it refers to is in its $defs.
// The caller must not change it.
func (s *Schema) Whole() []byte { return s.whole }

// Validate lists every rule that v breaks, in a stable order and at most ijson.MaxViolations; nil means
// that v is valid. Messages name the rule, never the offending value, which may be a secret.
func (s *Schema) Validate(v jsontext.Value) []Violation {
	if found := ijson.Check(v); found != nil {
		return found
	}
	return s.ValidateChecked(v)
}

// Accepts reports whether v, which is known to be I-JSON, is certainly valid. It takes time in proportion to v only,
// and no memory, so where it is not sure it leaves the question to [Schema.ValidateChecked], which takes [Cost].
func (s *Schema) Accepts(v jsontext.Value) bool { return s.accepter != nil && s.accepter.accepts(v) }

// ValidateChecked is Validate for a v that is known to be I-JSON, because it was part of a
// decoded envelope or has passed [ijson.Check].
func (s *Schema) ValidateChecked(v jsontext.Value) []Violation {
	if s.Accepts(v) {
		return nil
	}
	return s.judge(v)
}

// What a decoded value takes, besides its texts: measured, with what is garbage before it is whole.
const (
	costOfValue  = 96
	costOfObject = 320
)

// Cost is about how many bytes of memory it takes to decode v, in which there are so many values. It may be a
// hundred times as long as v is.
func Cost(v jsontext.Value, values int) int64 {
	objects := int64(bytes.Count(v, []byte("{"))) // more where texts hold some, and never fewer
	return int64(len(v)) + int64(values)*costOfValue + objects*costOfObject
}

func (s *Schema) judge(v jsontext.Value) []Violation {
	doc, err := decodeAny(v)
	if err != nil {
		return listUnreadable(v)
	}
	if s.counters == nil {
		err = s.compiled.Validate(doc)
	} else {
		err = s.counters.validate(doc, len(v))
	}
	switch invalid, ok := errors.AsType[*jsonschema.ValidationError](err); {
	case ok:
		return violations(invalid)
	case err != nil:
		return []Violation{ijson.NewViolation("", "steps", "cannot be checked: the schema tries it in too many ways")}
	}
	return nil
}

// listUnreadable says why v could not be decoded.
func listUnreadable(v jsontext.Value) []Violation {
	if found := ijson.Check(v); found != nil {
		return found
	}
	return []Violation{ijson.NewViolation("", ijson.RuleSyntax, "cannot be read")}
}

// decodeAny decodes v into what a schema validates. A number that no float64 holds is an error: the schema
// library would make a rational of a million digits of it, or panic.
func decodeAny(v jsontext.Value) (doc any, err error) {
	err = json.Unmarshal(v, &doc)
	return doc, err
}
