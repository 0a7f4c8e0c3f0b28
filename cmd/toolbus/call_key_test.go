package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// keyedDev runs `toolbus dev` with a tool that requires keys.
func keyedDev(t *testing.T) shell {
	t.Helper()
	tools := playTools(t)
	manifest, err := os.OpenFile(filepath.Join(tools, "play", "tool.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = manifest.WriteString("idempotency_key_requirement: required\n")
	if err != nil || manifest.Close() != nil {
		t.Fatal(err)
	}
	s, _, _ := startDevAt(t, t.TempDir(), t.TempDir(), "0", "--tools", tools)
	return s
}

// recorded checks that `why` explains the refusal of a call without a key by the id of its record.
func (s shell) recorded(id string) {
	s.t.Helper()
	if says := s.must("why", id); !strings.Contains(says, "may not call play") || !strings.Contains(says, "I-REQ-SCHEMA") {
		s.t.Errorf("why %s: %s", id, says)
	}
}

// A tool that requires keys takes no call whose key the command would have to make. The refusal is on record.
func TestRequiredKey(t *testing.T) {
	s := keyedDev(t)
	id, code := s.refusedID("play", "--input", `{"say":"hi"}`)
	if code != envelope.CodeSchema {
		t.Errorf("without a key: %s", code)
	}
	s.recorded(id)
	for _, key := range []string{"auto", "order-0000000000001"} {
		code, _, stderr := s.do("call", "play", "--input", `{"say":"hi"}`, "--key", key)
		_, ref, _ := strings.Cut(stderr, " · ref ")
		if code != 0 || !strings.Contains(s.must("why", strings.TrimSpace(ref)), "succeeded") {
			t.Errorf("--key %s: exit %d: %s", key, code, stderr)
		}
	}
}

// mcpAnswer returns the answer of `toolbus mcp` to a call of play. If key is "", the call has no key.
func (s shell) mcpAnswer(key string) (answer struct {
	Result struct {
		IsError bool           `json:"isError"`
		Meta    map[string]any `json:"_meta"`
	} `json:"result"`
}) {
	s.t.Helper()
	meta := ""
	if key != "" {
		meta = fmt.Sprintf(`"io.toolbus/idempotency_key":%q,`, key)
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"play","arguments":{"say":"hi"},`+
		`"_meta":{%s"io.toolbus/report":true,"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", meta)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var out, problems bytes.Buffer
	env := environment{stdin: strings.NewReader(line), stdout: &out, stderr: &problems, url: s.url, home: s.home}
	if code := run(ctx, env, []string{"mcp"}); code != 0 || json.Unmarshal(out.Bytes(), &answer) != nil {
		s.t.Fatalf("exit %d: %s%s", code, &out, &problems)
	}
	return answer
}

// An MCP client over standard input must name the key, too: equal calls of two sessions are not one call. The key and
// the reference of an answer are those of the call.
func TestRequiredKeyOfMCP(t *testing.T) {
	s := keyedDev(t)
	without := s.mcpAnswer("").Result
	if !without.IsError || without.Meta[envelope.MetaCode] != string(envelope.CodeSchema) ||
		without.Meta[envelope.MetaRef] != nil || without.Meta[envelope.MetaIdempotencyKey] != nil {
		t.Errorf("without a key: %+v", without)
	}
	s.recorded(fmt.Sprint(without.Meta[envelope.MetaAuditEventID]))
	const key = "order-0000000000001"
	with := s.mcpAnswer(key).Result
	if with.IsError || with.Meta[envelope.MetaIdempotencyKey] != key {
		t.Errorf("with a key: %+v", with)
	}
	if says := s.must("why", fmt.Sprint(with.Meta[envelope.MetaRef])); !strings.Contains(says, "succeeded") {
		t.Errorf("why: %s", says)
	}
}
