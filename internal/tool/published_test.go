package tool_test

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	google "github.com/google/jsonschema-go/jsonschema"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// published returns the published schema, decoded.
func published(t *testing.T) (doc map[string]any, raw []byte) {
	t.Helper()
	raw, err := tool.Published(transports()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc, raw
}

// fieldOf returns the rule of a field such as limits.memory_mb_max, following references, or nil. With aliases is the
// schema that has a field within an alias, such as retryPolicy.jitter.
func fieldOf(doc map[string]any, name string) map[string]any {
	rule := doc
	for part := range strings.SplitSeq(name, ".") {
		properties, _ := rule["properties"].(map[string]any)
		rule, _ = properties[part].(map[string]any)
		if ref, ok := rule["$ref"].(string); ok {
			rule = fieldOf(doc, strings.ReplaceAll(strings.TrimPrefix(ref, "#/properties/"), "/properties/", "."))
		}
	}
	return rule
}

// Every key of the sources is a field of the schema, or an alias of the field that it means.
func TestKeysOfTheSources(t *testing.T) {
	doc, _ := published(t)
	data, err := os.ReadFile("testdata/source-keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(words) < 2 {
			continue
		}
		keys++
		field := words[len(words)-1]
		rule, means := fieldOf(doc, words[1]), fieldOf(doc, field)
		if rule == nil || means == nil {
			t.Errorf("%s: no field %s, or no %s", words[0], words[1], field)
			continue
		}
		if state := means["x-state"]; state == nil && means["properties"] == nil {
			t.Errorf("%s has no state", field)
		}
	}
	if keys != 71 {
		t.Errorf("%d keys, want 71: update the number with the list", keys)
	}
}

// Another implementation of JSON Schema compiles the published schema, and accepts and refuses what the loader does.
func TestPublishedSchema(t *testing.T) {
	_, raw := published(t)
	var schema google.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	native := strings.Replace(living, "transport: mcp", "transport: native", 1)
	for _, c := range []struct {
		name, manifest string
		valid          bool
	}{
		{"minimal", minimal, true}, {"full", full, true}, {"the source's", sourceManifest(t), true},
		{"camelCase", camelCase, true},
		{"001", native, true},
		{"a blank endpoint", strings.Replace(native, "endpoint: web-fetch", `endpoint: " "`, 1), false},
		{"unknown field", minimal + "zzz: 1\n", false},
		{"both names", minimal + "version: 1.0.0\n", false},
		{"both names, one within", full + "timeout_default_ms: 1\n", false},
		{"a name beside the id", minimal + "name: fetch\n", true},
		{"no id", strings.Replace(minimal, "tool_id: web.fetch\n", "", 1), false},
		{"an id under another name", strings.Replace(minimal, "tool_id:", "tool_name:", 1), true},
		{"an endpoint of another transport", strings.Replace(full, "transport: process", "transport: native", 1), false},
		{"a command where no transport is named", strings.Replace(full, "transport: process\n", "", 1), true},
		{"out of range", strings.Replace(full, "memory_mb_max: 64", "memory_mb_max: 1", 1), false},
	} {
		if err := compiled.Validate(decodeYAML(t, c.manifest)); (err == nil) != c.valid {
			t.Errorf("%s: the published schema says %v", c.name, err)
		}
		_, err := tool.LoadFS(folder("web.fetch", c.manifest, map[string]string{"errors.md": "\n"}), transports()...)
		if name := c.name; (err == nil) != c.valid && name != "the source's" && name != "camelCase" && name != "001" {
			t.Errorf("%s: the loader says %v", name, err)
		}
	}
}
