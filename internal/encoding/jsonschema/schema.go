package jsonschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Schema is a compiled JSON Schema (2020-12, formats asserted). It is immutable and safe for
// concurrent use.
type Schema struct {
	File  string // whose text the schema is, for problems; "" without a file
	raw   []byte
	whole []byte // raw with the documents to which it refers
	// plan compiles the schema again, once. Compile has done so before, and dropped the result: it takes more than ten
	// times the memory of the text, and the accepter decides nearly all values.
	plan     func() (*part, error)
	accepter *accepter                   // may be nil
	formats  func() (*formatNode, error) // the same to find formats and names; nil if Formatted never finds one
}

// Violation is one broken rule of a schema or of I-JSON: a JSON pointer to the value, the name of the rule, and what
// the rule requires. Its texts are limited, and never contain a value, which may be a secret.
type Violation = ijson.Violation

// MaxBytes is the largest size of one document of a schema, in bytes.
const MaxBytes = 1 << 20

// schemaBase is the base address of schemas, because the compiler requires absolute addresses.
const schemaBase = "toolbus:///"

// Compile compiles raw, the schema at name, a relative path. It resolves a reference to another document against name
// and reads the document with load. The paths that load gets never leave the root. If load is nil, references to other
// documents are an error. Compile never uses the network. It must be possible to combine all documents into one (see
// [Schema.Whole]).
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
	if _, err := newCompiler(loader{load, others}).at(at, doc); err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, brief(err))
	}
	if len(others) == 0 {
		raw = bytes.Clone(raw)
		s := &Schema{raw: raw, whole: raw, accepter: accepterOf(doc)}
		s.plan = sync.OnceValues(func() (*part, error) { return newPlan(at, raw) })
		if mentionsFormat(doc) || declaresNames(doc) {
			s.formats = sync.OnceValues(func() (*formatNode, error) { return compileFormats(at, raw) })
		}
		return s, nil
	}
	whole, err := bundle(at, raw, others)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	s, err := Compile(name, whole, nil) // compile the document that callers get
	if err != nil {
		return nil, fmt.Errorf("with what it refers to, %w", err)
	}
	s.raw = bytes.Clone(raw)
	return s, nil
}

// compiler compiles one schema.
type compiler struct{ *jsonschema.Compiler }

// newCompiler returns a compiler that reads other documents with l.
func newCompiler(l loader) compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(l)
	return compiler{c}
}

// at compiles the document at an address.
func (c compiler) at(at string, doc any) (*jsonschema.Schema, error) {
	if err := c.AddResource(at, doc); err != nil {
		return nil, err
	}
	return c.Compile(at)
}

func schemaDocument(raw []byte) (any, error) {
	switch v := ijson.Check(raw); {
	case v == nil:
	case v[0].Pointer == "":
		return nil, errors.New(v[0].Message)
	default:
		return nil, fmt.Errorf("at %q: %s", v[0].Pointer, v[0].Message)
	}
	return decodeAny(raw)
}

// breach is the error of a schema that breaks its metaschema. Its text has the innermost reasons alone.
type breach struct {
	*jsonschema.SchemaValidationError
}

// brief returns an error with a shorter text, if it is that of a schema that breaks its metaschema.
func brief(err error) error {
	if broken, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return breach{broken}
	}
	return err
}

// Unwrap returns the error with all reasons.
func (b breach) Unwrap() error { return b.SchemaValidationError }

// Error returns the innermost reasons, each with its place in the schema unless the one before it has the same.
func (b breach) Error() string {
	whole, ok := errors.AsType[*jsonschema.ValidationError](b.Err)
	if !ok {
		return b.SchemaValidationError.Error()
	}
	var reasons []string
	last := ""
	for _, leaf := range leaves(whole) {
		at, says, _ := strings.Cut(leaf.Error(), ": ")
		if at != last {
			says = at + ": " + says
		}
		reasons, last = append(reasons, says), at
	}
	return strings.Join(reasons, "; or ")
}

func leaves(e *jsonschema.ValidationError) (all []*jsonschema.ValidationError) {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// loader reads the documents to which a schema refers, and keeps them by address.
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

// Raw returns the schema as passed to Compile. The caller must not change it.
func (s *Schema) Raw() []byte { return s.raw }

// Whole returns the schema as one document, which contains the documents to which it refers in its $defs. The caller
// must not change it.
func (s *Schema) Whole() []byte { return s.whole }

// Validate returns the rules that v breaks, sorted. It returns nil if v is valid. If v breaks more than
// ijson.MaxViolations, it returns one more than that, and none of the others. A value that takes more than [MaxSteps]
// breaks the rule "steps". Messages never contain a value, which may be a secret.
func (s *Schema) Validate(v jsontext.Value) []Violation {
	if found := ijson.Check(v); found != nil {
		return found
	}
	return s.ValidateChecked(v)
}

// Accepts reports whether v, which must be I-JSON, is certainly valid. It takes time proportional to the size of v,
// and allocates nothing. If it returns false, v may still be valid: only [Schema.ValidateChecked] decides, which
// needs the memory of [Cost].
func (s *Schema) Accepts(v jsontext.Value) bool { return s.accepter != nil && s.accepter.accepts(v) }

// ValidateChecked is Validate for a v that is known to be I-JSON, because v was part of a decoded envelope or has
// passed [ijson.Check].
func (s *Schema) ValidateChecked(v jsontext.Value) []Violation {
	if s.Accepts(v) {
		return nil
	}
	found, _ := s.judge(nil, v)
	return found
}

// ValidateFully is ValidateChecked for a v that [Schema.Accepts] has not accepted. The error is that of ctx: it ended
// before it was known whether v is valid.
func (s *Schema) ValidateFully(ctx context.Context, v jsontext.Value) (found []Violation, err error) {
	return s.judge(ctx.Err, v)
}

func (s *Schema) judge(ended func() error, v jsontext.Value) (found []Violation, err error) {
	doc, err := decodeAny(v)
	if err != nil {
		return listUnreadable(v), nil
	}
	root, err := s.plan()
	if err != nil { // cannot be: Compile has compiled the schema
		return []Violation{ijson.NewViolation("", "schema", "cannot be checked: the schema cannot be compiled")}, nil
	}
	return newChecker(ended, len(v)).judge(root, doc)
}

// Bytes per decoded value, without its text. Measured, including garbage from decoding.
const (
	costOfValue  = 96
	costOfObject = 320
)

// Cost returns the approximate memory for decoding v, in bytes. values is the number of values in v. The cost may be a
// hundred times the size of v.
func Cost(v jsontext.Value, values int) int64 {
	objects := int64(bytes.Count(v, []byte("{"))) // an upper estimate: strings may contain braces, too
	return int64(len(v)) + int64(values)*costOfValue + objects*costOfObject
}

// listUnreadable returns why v could not be decoded.
func listUnreadable(v jsontext.Value) []Violation {
	if found := ijson.Check(v); found != nil {
		return found
	}
	return []Violation{ijson.NewViolation("", ijson.RuleSyntax, "cannot be read")}
}

// decodeAny decodes v for the validation. A number that no float64 holds is an error: the schema library would convert
// it to a rational with a million digits, or panic.
func decodeAny(v jsontext.Value) (doc any, err error) {
	err = json.Unmarshal(v, &doc)
	return doc, err
}
