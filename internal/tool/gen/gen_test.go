package gen_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/gen"
)

var update = flag.Bool("update", false, "write what is generated where it is kept")

// folders are folders of tools whose programs need not be built.
func folders() []string { return []string{"testdata/tools"} }

func load(t *testing.T, dir string) *tool.Set {
	t.Helper()
	r, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The generated documents equal the stored ones.
func TestInSync(t *testing.T) {
	for _, dir := range folders() {
		r := load(t, dir)
		for _, f := range gen.Formats() {
			made, err := f.Write(r)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, ".generated", f.Name+f.Ending)
			if *update {
				if err := os.WriteFile(file, made, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, made) {
				t.Errorf("%s is not what the tools are (%v): go test ./internal/tool/gen -update", file, err)
			}
		}
	}
}

// A validator from another project accepts the OpenAPI document with tools of every kind.
func TestOpenAPI(t *testing.T) {
	for _, dir := range folders() {
		made, err := gen.OpenAPI(load(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := openapi3.NewLoader().LoadFromData(made)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		// The validator reads patterns as RE2, but MCP servers write ECMAScript patterns.
		if err := doc.Validate(t.Context(), openapi3.DisableSchemaPatternValidation()); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if doc.Paths.Len() == 0 {
			t.Errorf("%s: no paths", dir)
		}
	}
}

// Each schema for MCP clients compiles by itself, with a library from another project and no loader.
func TestMCPSchemas(t *testing.T) {
	made, err := gen.MCP(load(t, "testdata/tools"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Tools []struct {
			Name                      string
			InputSchema, OutputSchema any
		}
	}
	if err := json.Unmarshal(made, &doc); err != nil {
		t.Fatal(err)
	}
	for _, tool := range doc.Tools {
		if !envelope.IsFunctionName(tool.Name) {
			t.Errorf("%q is not a name that each client takes", tool.Name)
		}
		for _, of := range []any{tool.InputSchema, tool.OutputSchema} {
			c := santhosh.NewCompiler()
			c.UseRegexpEngine(func(string) (santhosh.Regexp, error) { return nil, nil }) // see TestOpenAPI
			if err := c.AddResource("test:schema", of); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Compile("test:schema"); err != nil {
				t.Errorf("%s: %v", tool.Name, err)
			}
		}
	}
}

// The OpenAPI document accepts and refuses the same values as the schemas in the manifests.
func TestOpenAPISchemas(t *testing.T) {
	made, err := gen.OpenAPI(load(t, "testdata/tools"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(made)
	if err != nil {
		t.Fatal(err)
	}
	post := doc.Paths.Find("/v1/tools/tree.walk/run").Post
	input := post.RequestBody.Value.Content["application/json"].Schema.Value
	output := post.Responses.Value("200").Value.Content["application/json"].Schema.Value
	for text, want := range map[string]bool{
		`{"tree":{"children":[{"children":[]}]}}`: true, `{"tree":{"children":[{"leaves":1}]}}`: false, `{}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := input.VisitJSON(v, openapi3.EnableJSONSchema2020()); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if output.VisitJSON(1.0) != nil || output.VisitJSON("1") == nil {
		t.Error("the schema of the output, which is in another file, is not what it was")
	}
	if r := post.Responses.Value("422"); r == nil || len(r.Value.Content["application/problem+json"].Examples) != 2 {
		t.Errorf("the two errors of one status are %+v", r)
	}
}

// The schemas in one document accept and refuse the same inputs as those of the manifests.
func TestJSONSchema(t *testing.T) {
	made, err := gen.JSONSchema(load(t, "testdata/tools"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(made, &doc); err != nil {
		t.Fatal(err)
	}
	doc["$ref"] = json.RawMessage(`"toolbus://tree_2ewalk.run.request/"`)
	whole, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jsonschema.Compile("all", whole, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bad := s.Validate([]byte(`{"tree":{"children":[{"children":[]}]}}`)); len(bad) > 0 {
		t.Errorf("refused: %v", bad)
	}
	if bad := s.Validate([]byte(`{"tree":{"children":[{"leaves":1}]}}`)); len(bad) == 0 {
		t.Error("taken")
	}
}

// Without a folder of tools, the error of each format names the flag.
func TestNoTools(t *testing.T) {
	for _, format := range gen.Formats() {
		cmd := gen.Command(cli.Env{Stdout: t.Output(), Stderr: t.Output()})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{format.Name, "--tools", filepath.Join(t.TempDir(), "tools")})
		const says = "\nname the folder of the tools with --tools DIR"
		if err := cmd.Execute(); err == nil || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%s: %v", format.Name, err)
		}
	}
}
