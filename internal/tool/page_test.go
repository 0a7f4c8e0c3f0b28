package tool_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

var update = flag.Bool("update", false, "write docs/manifest.md")

// The page about manifests is made from the schema.
func TestManifestPage(t *testing.T) {
	const name = "../../docs/manifest.md"
	fields, err := tool.Fields()
	if err != nil {
		t.Fatal(err)
	}
	page := manifestPage(t, fields)
	if *update {
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page, string(got)); diff != "" {
		t.Errorf("docs/manifest.md (-want +got): go test ./internal/tool -run TestManifestPage -update\n%s", diff)
	}
}

// manifestPage fills the tables of fields and aliases into testdata/manifest.md.
func manifestPage(t *testing.T, fields []tool.Field) string {
	t.Helper()
	template, err := os.ReadFile("testdata/manifest.md")
	if err != nil {
		t.Fatal(err)
	}
	var b, aliases strings.Builder
	for _, f := range fields {
		if f.State == "" && !strings.HasSuffix(f.Type, "object") {
			continue
		}
		name := strings.ReplaceAll(f.Name, ".[]", "[]")
		state := f.State
		if state == "" {
			state = "see its members"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", name, strings.ReplaceAll(f.Type, " | ", ", "),
			code(f.Default), state, f.Source, f.Description)
		for _, alias := range f.Aliases {
			fmt.Fprintf(&aliases, "| `%s` | `%s` |\n", alias, f.Name)
		}
	}
	return strings.NewReplacer("{{fields}}", b.String(), "{{aliases}}", aliases.String()).Replace(string(template))
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
