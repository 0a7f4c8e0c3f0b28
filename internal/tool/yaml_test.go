package tool_test

import (
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Scalars are those of the core schema of YAML 1.2.
func TestScalarsOfYAML(t *testing.T) {
	for written, want := range map[string]string{
		"12": "12", "012": "12", "-012": "-12", "+7": "7", "09": "9", "010000": "10000", "0o14": "12", "0x1F": "31",
		"1e3": "1000", "1E-09": "1e-9", "12e03": "12000", ".5": "0.5", "5.": "5", "-1.50": "-1.5", "true": "true",
		"Null": "null", "~": "null", "": "null", `"12"`: `"12"`, "'1e3'": `"1e3"`, "1_000": `"1_000"`, "0b11": `"0b11"`,
		"0o8": `"0o8"`, "0X1F": `"0X1F"`, "-0x1F": `"-0x1F"`, "yes": `"yes"`, "no": `"no"`, "on": `"on"`,
		"1:30": `"1:30"`, "1e": `"1e"`, ".": `"."`, "e3": `"e3"`, "1.2.3": `"1.2.3"`, "0o": `"0o"`,
		"2001-12-14": `"2001-12-14"`,
	} {
		set, err := tool.LoadFS(folder("search.web", living+"examples:\n- input:\n    v: "+written+"\n", nil), withMCP()...)
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		f, _ := set.List()[0].Function("run")
		if got := string(f.Examples[0].Input); got != `{"v":`+want+`}` {
			t.Errorf("%s is %s, want %s", written, got, want)
		}
	}
	for _, written := range []string{"1e400", "-1e400", ".inf", ".nan", "0xFFFFFFFFFFFFFFFFF"} {
		manifest := living + "examples:\n- input:\n    v: " + written + "\n"
		if _, err := tool.LoadFS(folder("search.web", manifest, nil), withMCP()...); err == nil {
			t.Errorf("%s is accepted", written)
		}
	}
}

// Texts that look like numbers are texts again when a manifest that was written is read.
func TestMarshalYAML(t *testing.T) {
	texts := []string{"1e3", "0o14", "012", "-.5", "a", "1_000", "multi\nline"}
	raw, err := tool.MarshalYAML(yaml.MapSlice{{Key: "a", Value: yaml.MapSlice{{Key: "b", Value: texts}}},
		{Key: "c", Value: "1e3"}, {Key: "d", Value: []any{"1e3", 7}}})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := tool.NewDocumentSchema("any", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want any = nil, map[string]any{"a": map[string]any{"b": []any{"1e3", "0o14", "012", "-.5", "a", "1_000",
		"multi\nline"}}, "c": "1e3", "d": []any{"1e3", 7.0}}
	doc := schema.Read("any.yaml", raw)
	if err := doc.Decode(&got); err != nil || len(doc.Problems()) > 0 {
		t.Fatalf("%v, %v", err, doc.Problems())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", raw, diff)
	}
}
