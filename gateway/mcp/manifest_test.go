package mcp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// keyed is a tool without functions that changes nothing, and that requires a key.
const keyed = `tool_id: search.web
semver: 1.0.0
owner: "@team"
description: Searches.
determinism: idempotent
read_only: true
idempotency_key_requirement: required
schema: {request: {type: object}, response: {type: object}}
`

// tellsFunction is a program that answers with the name of its function.
const tellsFunction = `#!/bin/sh
read -r request
fn=${request#*'"fn":"'}
printf '{"type":"output","output":{"fn":"%s"}}\n' "${fn%%'"'*}"
`

// MCP clients see a tool without functions as one tool, and whether it is read-only. A call of a tool that requires a
// key is refused, and recorded, if the client sends none.
func TestToolWithoutFunctions(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "search.web", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"tool.yaml": keyed, "bin/search.web": tellsFunction} {
		if err := os.WriteFile(filepath.Join(dir, "search.web", name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	server := open(t, mcp.New(t.Context(), bus.Client, mcp.Options{}))
	for _, protocol := range protocols {
		c := over(t, server, protocol, nil)
		listed, err := c.ListTools(t.Context(), nil)
		if err != nil || len(listed.Tools) != 1 || listed.Tools[0].Name != "search_web" ||
			!listed.Tools[0].Annotations.ReadOnlyHint {
			t.Fatalf("%s: %+v, %v", protocol, listed, err)
		}
		res := callNamed(t, c, "search_web", `{}`, nil)
		if !res.IsError || res.Meta[envelope.MetaCode] != "I-REQ-SCHEMA" || res.Meta[envelope.MetaAuditEventID] == nil ||
			res.Meta[envelope.MetaRef] != nil || res.Meta[envelope.MetaIdempotencyKey] != nil {
			t.Errorf("%s: without a key: %s, %v", protocol, words(res), res.Meta)
		}
		if text := words(res); strings.Contains(text, "/constraints") || strings.Contains(text, "correct") ||
			!strings.HasPrefix(text, "This tool needs an idempotency key, which the client sends as _meta "+
				envelope.MetaIdempotencyKey+".\n") {
			t.Errorf("%s: a model without a key reads %q", protocol, text)
		}
		meta := sdk.Meta{envelope.MetaIdempotencyKey: "one-key-for-all-of-them"}
		if got := words(callNamed(t, c, "search_web", `{}`, meta)); got != `{"fn":"run"}` {
			t.Errorf("%s: with a key: %s", protocol, got)
		}
	}
}
