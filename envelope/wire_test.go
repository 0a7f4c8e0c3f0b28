package envelope

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// wireCase is a sample of a wire type with its codec, free of the type.
type wireCase struct {
	name   string
	value  any
	schema *jsonschema.Schema
	encode func(contentType string, v any) ([]byte, error)
	decode func(contentType string, body []byte) (any, *Error)
}

func caseOf[T any](name string, v *T, schema *jsonschema.Schema, enc func(string, *T) ([]byte, error),
	dec func(string, []byte) (*T, *Error)) wireCase {
	return wireCase{name, v, schema,
		func(ct string, v any) ([]byte, error) { return enc(ct, v.(*T)) },
		func(ct string, body []byte) (any, *Error) { v, e := dec(ct, body); return v, e },
	}
}

func wireCases() []wireCase {
	return []wireCase{
		caseOf("request_minimal", minimalRequest(), RequestSchema(), EncodeRequest, DecodeRequest),
		caseOf("request_full", fullRequest(), RequestSchema(), EncodeRequest, DecodeRequest),
		caseOf("request_open", openRequest(), RequestSchema(), EncodeRequest, DecodeRequest),
		caseOf("response_minimal", minimalResponse(), ResponseSchema(), EncodeResponse, DecodeResponse),
		caseOf("response_full", fullResponse(), ResponseSchema(), EncodeResponse, DecodeResponse),
		caseOf("response_ref", refResponse(), ResponseSchema(), EncodeResponse, DecodeResponse),
		caseOf("response_retryable", retryableResponse(), ResponseSchema(), EncodeResponse, DecodeResponse),
		caseOf("response_open", openResponse(), ResponseSchema(), EncodeResponse, DecodeResponse),
		caseOf("response_invalid", invalidResponse(), ResponseSchema(), EncodeResponse, DecodeResponse),
		caseOf("accepted", sampleAccepted(), AcceptedSchema(), EncodeAccepted, DecodeAccepted),
	}
}

// TestWire holds the wire forms: what is encoded is the golden file, fits the schema, and
// decodes to the same value again, in JSON and in msgpack.
func TestWire(t *testing.T) {
	for _, c := range wireCases() {
		for contentType, ext := range map[string]string{ContentJSON: ".json", ContentMsgpack: ".msgpack"} {
			t.Run(c.name+ext, func(t *testing.T) {
				body, err := c.encode(contentType, c.value)
				if err != nil {
					t.Fatal(err)
				}
				golden(t, "testdata/wire/"+c.name+ext, body)
				if contentType == ContentJSON {
					if v := c.schema.Validate(body); v != nil {
						t.Errorf("does not fit its schema: %v", v)
					}
				}
				got, e := c.decode(contentType, body)
				if e != nil {
					t.Fatalf("%s %v", e, e.Details.Violations)
				}
				// A number may be written differently after msgpack (1e-7), so values are compared in canonical form.
				if diff := cmp.Diff(c.value, got, cmp.Transformer("canonical", canonicalText)); diff != "" {
					t.Errorf("decoded value differs:\n%s", diff)
				}
			})
		}
	}
}

func canonicalText(v jsontext.Value) string {
	c, err := ijson.Canonical(v)
	if err != nil {
		return string(v)
	}
	return string(c)
}

func TestContentTypes(t *testing.T) {
	body, err := EncodeRequest("", minimalRequest())
	if err != nil {
		t.Fatal(err)
	}
	for _, ct := range []string{"", ContentJSON, "application/json; charset=utf-8", "Application/JSON"} {
		if _, e := DecodeRequest(ct, body); e != nil {
			t.Errorf("%q: %s", ct, e)
		}
	}
	if _, e := DecodeRequest("text/html", body); e == nil || e.Code != CodeMalformed ||
		e.Details.Violations[0].Rule != "content_type" {
		t.Errorf("text/html: %v", e)
	}
	if _, err := EncodeRequest("text/html", minimalRequest()); err == nil {
		t.Error("text/html was encoded")
	}
}

// ErrorSchema is the published schema of an [Error].
func ErrorSchema() *jsonschema.Schema { return published("error.json")() }

// TestSourceSchemas compares with the words of the source contract.
func TestSourceSchemas(t *testing.T) {
	source, err := os.ReadFile("testdata/source_response.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(ResponseSchema().Raw()) != string(source) {
		t.Error("response.json is not that of the source, word for word")
	}
	raw, err := os.ReadFile("testdata/source_request.json")
	if err != nil {
		t.Fatal(err)
	}
	sourceRequest, err := jsonschema.Compile("request.json", raw, anything)
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("testdata/source_example.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*jsonschema.Schema{"the source's": sourceRequest, "our": RequestSchema()} {
		if v := s.Validate(example); v != nil {
			t.Errorf("the source's example breaks %s schema: %v", name, v)
		}
	}
	if _, e := DecodeRequest("", example); e != nil {
		t.Errorf("the source's example is refused: %v", e.Details.Violations)
	}
}

// TestTypesMatchSchemas holds Go types and schemas together: the same members everywhere.
func TestTypesMatchSchemas(t *testing.T) {
	doc := func(s *jsonschema.Schema) map[string]any {
		return decodeAny(t, s.Raw()).(map[string]any)
	}
	compare := func(what string, schema map[string]any, typ reflect.Type) {
		want := map[string]bool{}
		for i := range typ.NumField() {
			if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				want[name] = true
			}
		}
		if typ == reflect.TypeFor[Details]() {
			for _, name := range correlation() { // which are in Extra
				want[name] = true
			}
		}
		got := map[string]bool{}
		for name := range schema["properties"].(map[string]any) {
			got[name] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Go +schema):\n%s", what, diff)
		}
	}
	part := func(m map[string]any, path ...string) map[string]any {
		for _, p := range path {
			m = m["properties"].(map[string]any)[p].(map[string]any)
		}
		return m
	}
	request, failure := doc(RequestSchema()), doc(ErrorSchema())
	compare("request", request, reflect.TypeFor[Request]())
	compare("context", part(request, "context"), reflect.TypeFor[RequestContext]())
	compare("constraints", part(request, "constraints"), reflect.TypeFor[Constraints]())
	compare("retry_policy", part(request, "constraints", "retry_policy"), reflect.TypeFor[RetryPolicy]())
	compare("response", doc(ResponseSchema()), reflect.TypeFor[Response]())
	compare("accepted", doc(AcceptedSchema()), reflect.TypeFor[Accepted]())
	compare("error", failure, reflect.TypeFor[Error]())
	compare("details", part(failure, "details"), reflect.TypeFor[Details]())
	compare("diagnostic", part(failure, "diagnostic"), reflect.TypeFor[Diagnostic]())
}

// Each file is what a function returns, word for word.
func TestPublishedSchemas(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{
		"request.json": RequestSchema(), "response.json": ResponseSchema(), "accepted.json": AcceptedSchema(),
		"error.json": ErrorSchema(),
	}
	files, err := schemaFiles.ReadDir("schemas")
	if err != nil || len(files) != len(schemas) {
		t.Fatalf("%d files, %d schemas, %v", len(files), len(schemas), err)
	}
	for _, f := range files {
		raw, err := schemaFiles.ReadFile("schemas/" + f.Name())
		if s := schemas[f.Name()]; err != nil || s == nil || string(s.Raw()) != string(raw) {
			t.Errorf("%s is not published (%v)", f.Name(), err)
		}
	}
}
