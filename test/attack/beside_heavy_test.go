package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const heavyManifest = `tool_id: heavy
semver: 1.0.0
owner: "@attack"
title: Heavy
description: Waits.
status: active
determinism: Pure
transport: process
pool: slow
endpoint: {command: [./wait]}
functions:
  wait: {description: Wait., request: any.json, response: any.json}
  alternatives: {description: Wait., request: alternatives.json, response: any.json}
  many: {description: Wait., request: many.json, response: any.json}
  values: {description: Wait., request: values.json, response: any.json}
  patterns: {description: Wait., request: patterns.json, response: any.json}
limits: {timeout_ms_default: 600000, timeout_ms_max: 600000, concurrency_max: 8}
`

// heavyTool writes a tool of the pool slow whose runs last until their deadline, and whose inputs are costly to check.
func heavyTool(t testing.TB, tools string) {
	t.Helper()
	items := func(form string, n int, part string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(part, "N", fmt.Sprint(i))
		}
		return fmt.Sprintf(`{"type":"object","properties":{"items":{"items":`+form+`}}}`, strings.Join(parts, ","))
	}
	const alternative = `{"type":"object","required":["bN"],"properties":{"a":{"type":"integer","minimum":N}}}`
	dir := filepath.Join(tools, "heavy")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"tool.yaml":         heavyManifest,
		"wait":              "#!/bin/sh\nexec sleep 600\n",
		"any.json":          `{"type":"object"}`,
		"alternatives.json": items(`{"anyOf":[%s]}`, 20, alternative),
		"many.json":         items(`{"anyOf":[%s]}`, 800, alternative),
		"values.json":       items(`{"enum":[%s]}`, 16_000, "N"),
		"patterns.json":     items(`{"patternProperties":{%s}}`, 300, `"^a*N$":{"type":"string"}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
