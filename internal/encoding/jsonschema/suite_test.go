package jsonschema

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// group is a part of the official test suite: a schema with values.
type group struct {
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"`
	Tests       []struct {
		Description string         `json:"description"`
		Data        jsontext.Value `json:"data"`
		Valid       bool           `json:"valid"`
	} `json:"tests"`
}

// suite returns the files of the official test suite for a draft, which a dependency has with its tests.
func suite(t *testing.T, draft string) []string {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	tests := filepath.Join(strings.TrimSpace(string(folder)), "jsonschema", "testdata", draft)
	files, err := filepath.Glob(filepath.Join(tests, "*.json"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// TestSuite runs the official test suite of JSON Schema, but for schemas that refer to documents of its server.
func TestSuite(t *testing.T) {
	for draft, dialect := range map[string]string{
		"draft2020-12": "https://json-schema.org/draft/2020-12/schema", "draft7": "http://json-schema.org/draft-07/schema#",
	} {
		ran := 0
		for _, file := range suite(t, draft) {
			if filepath.Base(file) == "format.json" { // it holds that formats are not asserted
				continue
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var groups []group
			if err := json.Unmarshal(raw, &groups); err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				ran += runGroup(t, draft+"/"+filepath.Base(file), dialect, g)
			}
		}
		t.Logf("%s: %d tests", draft, ran)
		if ran < 600 {
			t.Errorf("%s: only %d tests", draft, ran)
		}
	}
}

// runGroup returns the number of tests of g.
func runGroup(t *testing.T, file, dialect string, g group) (ran int) {
	t.Helper()
	schema, err := Decode(g.Schema)
	if err != nil {
		t.Fatal(err)
	}
	if members, ok := schema.(map[string]any); ok && members["$schema"] == nil {
		members["$schema"] = dialect
	}
	raw, err := Encode(schema)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compile("suite.json", raw, nil)
	if err != nil {
		t.Logf("%s: %s: %v", file, g.Description, err)
		return 0
	}
	for _, test := range g.Tests {
		if _, err := decodeAny(test.Data); err != nil {
			continue
		}
		ran++
		if found := fully(s, test.Data); (found == nil) != test.Valid {
			t.Errorf("%s: %s: %s: %v", file, g.Description, test.Description, found)
		}
		if s.Accepts(test.Data) && !test.Valid {
			t.Errorf("%s: %s: %s: accepted", file, g.Description, test.Description)
		}
	}
	return ran
}

// FuzzChecker compares the checker with the validation of the library, which has no bounds.
func FuzzChecker(f *testing.F) {
	const draft = `"$schema":"http://json-schema.org/`
	for _, seed := range [][2]string{
		{`{"anyOf":[{"type":"string"},{"minimum":5}],"oneOf":[{"multipleOf":0.1},{"const":1}]}`, `0.3`},
		{`{"properties":{"a":{"enum":[1,"x",{"b":[null,-0]}]}},"required":["a"],"additionalProperties":false}`,
			`{"a":{"b":[null,0]}}`},
		{`{"contains":{"type":"integer"},"minContains":0,"maxContains":1,"uniqueItems":true}`, `[1,"1",1.0]`},
		{`{"contains":{"type":"integer"},"unevaluatedItems":{"type":"string"}}`, `["a",1,null]`},
		{`{"if":{"required":["a"]},"then":{"dependentRequired":{"a":["b"]}},"else":{"not":{}}}`, `{"a":1}`},
		{`{"anyOf":[{"properties":{"a":true}},{"required":["b"]}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`},
		{`{"$dynamicRef":"#n","$defs":{"x":{"$dynamicAnchor":"n","prefixItems":[{"$dynamicRef":"#n"}]}}}`, `[[1]]`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,` +
			`"items":[{"$recursiveRef":"#"}],"additionalItems":{"type":"null"}}`, `[[],1]`},
		{`{` + draft + `draft-07/schema#","dependencies":{"a":["b"],"c":{"minProperties":3}}}`, `{"a":1,"c":null}`},
		{`{"propertyNames":{"pattern":"^[a-c]$"},"patternProperties":{"b":{"maxLength":1}}}`, `{"b":"é","c":null}`},
		{`{` + draft + `draft-04/schema#","minimum":1,"exclusiveMinimum":true,"format":"date"}`, `1`},
		{`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"items":{"type":7}}`},
		{`{"$ref":"#"}`, `1`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile("fuzz", []byte(schema), nil)
		if err != nil || len(schema) > 1000 || len(value) > 100 {
			return
		}
		doc, err := decodeAny(jsontext.Value(value))
		if err != nil {
			return
		}
		found := fully(s, jsontext.Value(value))
		if len(found) == 1 && found[0].Rule == "steps" {
			return
		}
		document, err := schemaDocument([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		library, err := newCompiler(loader{}).at(schemaBase+"fuzz", document)
		if err != nil {
			t.Fatal(err)
		}
		if err := library.Validate(doc); (err == nil) != (found == nil) {
			t.Errorf("%s of %s: %v, but the library: %v", value, schema, found, err)
		}
	})
}
