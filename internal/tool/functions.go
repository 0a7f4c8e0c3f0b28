package tool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// functions compiles the schemas of the declared functions, or those of schema, which then hold for every function.
func (l *toolLoader) functions(w *written) {
	l.manifest.Functions = make(map[string]*Function, max(1, len(w.Functions)))
	_, declared := l.keys["/functions"]
	_, has := l.keys["/schema"]
	switch {
	case declared && has:
		l.report(l.keys["/schema"], "schema is for a tool without functions", "leave one of the two out")
	case declared:
		l.declaredFunctions(w)
	case has:
		l.everyFunction(w)
	default:
		l.fail("/functions", "functions or schema is required",
			"schema: {request: schema/request.json, response: schema/response.json}")
	}
}

func (l *toolLoader) declaredFunctions(w *written) {
	for name, of := range w.Functions {
		at := jsontext.Pointer("/functions").AppendToken(name)
		f := &Function{Name: name, Description: of.Description, Examples: of.Examples}
		f.Request, f.Response = l.schema(at+"/request", of.Request), l.schema(at+"/response", of.Response)
		l.examples(at, f)
		l.manifest.Functions[name] = f
	}
	if len(w.Examples) > 0 {
		l.report(l.keys["/examples"], "examples belong to a function", "move them below the function that they show")
	}
}

func (l *toolLoader) everyFunction(w *written) {
	f := &Function{Name: envelope.AnyFunction, Examples: w.Examples}
	f.Request = l.envelopeSchema("/schema/request", w.Schema.Request, "input")
	f.Response = l.envelopeSchema("/schema/response", w.Schema.Response, "output")
	l.examples("", f)
	l.manifest.Functions[envelope.AnyFunction] = f
}

// examples checks the examples of a function, whose manifest is at a pointer.
func (l *toolLoader) examples(at jsontext.Pointer, f *Function) {
	for i, e := range f.Examples {
		f.Examples[i].Name = cmp.Or(e.Name, fmt.Sprintf("example %d", i+1))
		at := at + pointer("/examples/%d", i)
		l.conforms(at+"/input", f.Request, e.Input)
		l.conforms(at+"/output", f.Response, e.Output)
		if e.Error == "" {
			continue
		}
		if e.Output != nil {
			l.fail(at+"/error", "an example has an output or an error", "leave one of the two out")
		}
		if _, declared := l.manifest.Errors[e.Error]; !declared && envelope.Code(e.Error).Class() == "" {
			l.fail(at+"/error", fmt.Sprintf("%q is neither an error of the tool nor a code of the taxonomy", e.Error),
				didYouMean(e.Error, l.manifest.ErrorNames))
		}
	}
}

// envelopeSchema compiles a schema of a tool without functions: the file that value names, or value itself. A schema of
// a whole envelope (000 §7) is reduced to its member of.
func (l *toolLoader) envelopeSchema(at jsontext.Pointer, value jsontext.Value, of string) *jsonschema.Schema {
	if l.bad[at] {
		return nil
	}
	var file string
	switch {
	case value == nil:
		l.fail(at, l.named(at)+" is required", "name a file of the tool's folder, or write the schema here")
		return nil
	case value.Kind() == '{':
		return l.compile(at, manifestFile, partOf(value, of))
	case json.Unmarshal(value, &file) != nil || strings.TrimSpace(file) == "":
		l.fail(at, l.named(at)+" names no file", "name a file of the tool's folder, such as schema/request.json")
		return nil
	}
	raw, ok := l.schemaFile(at, file)
	if !ok {
		return nil
	}
	part := partOf(raw, of)
	s := l.compile(at, file, part)
	if s != nil && bytes.Equal(part, raw) {
		s.File = path.Clean(file)
	}
	return s
}

// partOf returns the schema of the member of in an envelope's schema, with the definitions beside it. It returns any
// other schema as it is.
func partOf(raw []byte, of string) []byte {
	var whole struct {
		Properties  map[string]jsontext.Value `json:"properties"`
		Defs        jsontext.Value            `json:"$defs"`
		Definitions jsontext.Value            `json:"definitions"`
	}
	if json.Unmarshal(raw, &whole) != nil {
		return raw
	}
	part, has := whole.Properties[of]
	if _, envelope := whole.Properties["call_id"]; !has || !envelope {
		return raw
	}
	members := map[string]jsontext.Value{}
	if json.Unmarshal(part, &members) != nil {
		return part
	}
	for name, defs := range map[string]jsontext.Value{"$defs": whole.Defs, "definitions": whole.Definitions} {
		if _, own := members[name]; defs != nil && !own {
			members[name] = defs
		}
	}
	reduced, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return raw
	}
	return reduced
}

// described reports a tool whose description for callers does not fit into one message.
func (l *toolLoader) described() {
	raw, _ := json.Marshal(l.manifest.describe(false)) // cannot fail: all texts are valid UTF-8
	size := len(raw) + len(l.manifest.Whole)
	if l.manifest.Listed != nil {
		size += len(l.manifest.Listed.Tool) + len(l.manifest.Listed.Server.Instructions)
	}
	for _, f := range l.manifest.Functions {
		for _, s := range []*jsonschema.Schema{f.Request, f.Response} {
			if s != nil {
				size += len(s.Whole())
			}
		}
	}
	if size > MaxDescribed {
		l.fail("/functions", fmt.Sprintf("schemas and texts take %d bytes; callers can be told %d", size, MaxDescribed),
			"shorten schemas and descriptions")
	}
}

// schema compiles the schema file name, which the manifest names at a pointer.
func (l *toolLoader) schema(at jsontext.Pointer, name string) *jsonschema.Schema {
	if l.bad[at] {
		return nil
	}
	raw, ok := l.schemaFile(at, name)
	if !ok {
		return nil
	}
	s := l.compile(at, name, raw)
	if s != nil {
		s.File = path.Clean(name)
	}
	return s
}

func (l *toolLoader) schemaFile(at jsontext.Pointer, name string) (raw []byte, ok bool) {
	raw, err := l.read(name)
	if err != nil {
		l.fail(at, reason(err), "a schema lies in the tool's own folder")
	}
	return raw, err == nil
}

// compile compiles a schema of the file name.
func (l *toolLoader) compile(at jsontext.Pointer, name string, raw []byte) *jsonschema.Schema {
	compiled, err := jsonschema.Compile(path.Clean(name), raw, l.read)
	if err != nil {
		text := reason(err)
		if !slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Message == text }) { // another function has it
			l.fail(at, text, schemaHint(err))
		}
		return nil
	}
	return compiled
}

// schemaHint returns a hint on how to correct a schema that does not compile.
func schemaHint(err error) string {
	refused, invalid := new(santhosh.LoadURLError), new(santhosh.SchemaValidationError)
	switch {
	case errors.As(err, &refused) && errors.Is(refused.Err, fs.ErrNotExist):
		return "put the file there, or correct the $ref"
	case errors.As(err, &refused):
		return "refer only to files in the tool's own folder; nothing is fetched"
	case errors.As(err, &invalid) && strings.Contains(err.Error(), "is not valid regex"):
		return "patterns are RE2: brackets are closed, no lookaround, no back-references"
	case errors.As(err, &invalid):
		return "correct the schema at the place that is named; it is JSON Schema 2020-12"
	}
	return "a schema is one JSON document, JSON Schema 2020-12, and what it refers to is there"
}

// conforms reports where an example breaks its schema, unless a value of the example already has a problem.
func (l *toolLoader) conforms(at jsontext.Pointer, schema *jsonschema.Schema, value jsontext.Value) {
	if schema == nil || value == nil || l.faulty(at) {
		return
	}
	for _, v := range schema.Validate(value) {
		l.report(l.values[at], fmt.Sprintf("the example breaks its schema at %q: %s", v.Pointer, v.Message),
			"correct the example, or the schema")
	}
}
