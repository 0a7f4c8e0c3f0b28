package tool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

// camelCase is a manifest with the keys of 002.
const camelCase = `name: mcp::github::issues.create
version: 1.2.3
title: Create an issue
description: Creates an issue.
owner: "@team-code"
tags: [code, write]
inputSchema: {type: object, properties: {title: {type: string}}, required: [title]}
outputSchema: {type: object}
examples:
  - {name: typical, input: {title: x}, output: {}}
  - {input: {title: y}, error: R-UPSTREAM-001}
effect: NonIdempotentWrite
idempotencyKeyRequirement: required
timeoutMs: 1000
retryPolicy: {strategy: exponential, maxAttempts: 3, backoff: {initialMs: 200}, jitter: true}
rateLimit: {tokens: 10, intervalMs: 1000}
concurrency: 5
circuitBreaker: {errorRate: 0.5, latencyMs: 100, cooldown_ms: 1000}
budgets: {agent: {time_ms: 1000, cost: 1.5}}
requiredScopes: [issues:write]
secretRefs: [GITHUB_TOKEN]
redactionRules: [/headers/authorization]
dataClassification: internal
eventNames: [ToolInvoked]
traceAttributes: [tool.name]
metrics: [throughput]
serverVersion: 1.0.0
toolVersion: abc
`

// sourceManifest returns the manifest of 000 §1, unchanged.
func sourceManifest(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/000/tool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decodeYAML(t *testing.T, text string) (v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// sourceFolder returns the folder of the source's tool, as 000 §1 and §7 lay it out.
func sourceFolder(t *testing.T, folder string, more map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"tool.yaml": sourceManifest(t), "schema/request.json": "{}", "schema/response.json": "{}", "errors.md": "",
	}
	for name, content := range more {
		files[name] = content
	}
	for name, content := range files {
		at := filepath.Join(dir, folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The manifest of 000 §1 loads unchanged, with {} as schemas and an empty errors.md, in a folder that is named by the
// plain or the encoded id. Its function is every function.
func TestManifestOfTheSource(t *testing.T) {
	for _, name := range []string{"search.web", "search_2eweb"} {
		set, problems, err := tool.Lint(sourceFolder(t, name, nil), transports()...)
		if err != nil || problems.Failed() || set.Len() != 1 {
			t.Fatalf("%s: %v, %d tools\n%v", name, err, set.Len(), problems)
		}
		m := set.List()[0]
		if m.Transport != process.Transport || m.Endpoint.Name() != "./bin/search.web" || m.Missing != "bin/search.web" {
			t.Errorf("transport %q, endpoint %q, missing %q", m.Transport, m.Endpoint.Name(), m.Missing)
		}
		for _, fn := range []string{"query", "anything else"} {
			if f, ok := m.Function(fn); !ok || len(f.Request.Validate([]byte(`{"x":1}`))) > 0 {
				t.Errorf("function %s: %v", fn, ok)
			}
		}
		var says []string
		for _, p := range problems {
			says = append(says, p.String())
		}
		all := strings.Join(says, "\n")
		for _, want := range []string{
			`3:9: warning: "sha256:abcdef..." has not the form of a SHA-256`, "health is declared only",
			"capabilities.net_allowlist is declared only", "limits.memory_mb_max is declared only",
			"the program bin/search.web is missing",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("no warning %q in\n%s", want, all)
			}
		}
		const fix = "build it, or tell the tool's owner: `toolbus dev` then serves it"
		if e := m.NeverRuns(); e == nil || !strings.HasPrefix(e.Fix, fix) {
			t.Errorf("refused with %+v", e)
		}
		if _, err := m.OpenProgram(); err == nil {
			t.Error("a program that was not there when the tool was loaded may run")
		}
	}
}

// Two folders of one tool, the plain and the encoded name, are a problem.
func TestTwoFoldersOfOneTool(t *testing.T) {
	files := folder("web.fetch", minimal, nil)
	for name, file := range folder("web.fetch", minimal, nil) {
		files["web.fetch/"+strings.TrimPrefix(name, "web_2efetch/")] = file
	}
	_, err := tool.LoadFS(files, transports()...)
	const want = "the tool web.fetch is in the folder web.fetch, too (keep one of the two)"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("loaded: %v", err)
	}
}

// A schema of a whole envelope, as 000 §7 has them, is reduced to the part below input or output.
func TestEnvelopeSchemas(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("testdata/000", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	dir := sourceFolder(t, "search.web", map[string]string{
		"schema/request.json": read("request.json"), "schema/response.json": read("response.json"),
		"schema/input.json": `{"type":"object","required":["q"],"properties":{"q":{"$ref":"#/$defs/text"}},` +
			`"$defs":{"text":{"type":"string"}}}`,
		"schema/output.json": `{"type":"array"}`,
	})
	set, err := tool.Load(dir, transports()...)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := set.List()[0].Function("query")
	for _, c := range []struct {
		input string
		valid bool
	}{{`{"q":"x"}`, true}, {`{"q":1}`, false}, {`{}`, false}} {
		if bad := f.Request.Validate([]byte(c.input)); (bad == nil) != c.valid {
			t.Errorf("input %s: %v", c.input, bad)
		}
	}
	if bad := f.Response.Validate([]byte(`{}`)); bad == nil {
		t.Error("an output that is no list is accepted")
	}
	if whole := string(f.Request.Whole()); strings.Contains(whole, "deadline_unix_ms") {
		t.Errorf("callers are told the envelope: %s", whole)
	}
	missing := sourceFolder(t, "search.web", map[string]string{"schema/request.json": read("request.json")})
	if _, err := tool.Load(missing, transports()...); err == nil || !strings.Contains(err.Error(), "input.json") {
		t.Errorf("without input.json: %v", err)
	}
}

// The keys of 002 mean the same fields as the canonical ones.
func TestCamelCase(t *testing.T) {
	files := fstest.MapFS{"mcp::github::issues.create/tool.yaml": &fstest.MapFile{Data: []byte(camelCase)}}
	set, err := tool.LoadFS(files, transports()...)
	if err != nil {
		t.Fatal(err)
	}
	m := set.List()[0]
	if m.ToolID != "mcp::github::issues.create" || m.Semver != "1.2.3" || m.Effect != "NonIdempotentWrite" ||
		m.KeyRequirement != envelope.KeyRequired || m.Limits.Concurrency != 5 ||
		m.Security.RequiredScopes[0] != "issues:write" ||
		len(m.Events) == 0 || len(m.Attributes) == 0 || len(m.Metrics) == 0 {
		t.Errorf("manifest %+v", m)
	}
	for _, name := range []string{"limits.timeout_ms_attempt", "retry_policy", "rate_limit", "circuit_breaker", "budgets",
		"security.secret_refs", "security.redaction_rules", "security.data_classification"} {
		if !strings.Contains(strings.Join(m.DeclaredOnly, " "), name) {
			t.Errorf("%s is not declared only: %v", name, m.DeclaredOnly)
		}
	}
	if bad := m.Functions[envelope.AnyFunction].Request.Validate([]byte(`{}`)); bad == nil {
		t.Error("the schema in the manifest is not used")
	}
}

// living is a manifest with the members of 001, and those that every manifest needs.
const living = `name: search.web
version: 1.0.0
description: Searches.
owner: "@team"
effect: Pure
status: planned
transport: mcp
endpoint: web-fetch
input_schema: {type: object}
output_schema: {type: object}
errors:
  - {code: invalid_query, http_status: 400}
  - {code: not_listening, http_status: 404}
  - {code: parse_failed, http_status: 422}
  - {code: launch_failed, http_status: 500}
  - {code: upstream_failure, http_status: 502}
  - {code: timeout, http_status: 504}
`

// withMCP are the transports of a deployment.
func withMCP() []tool.Transport { return append(transports(), mcp.Describe()) }

// An endpoint of 001 is the name of a server. Its errors have two members: the status tells the class.
func TestLivingContract(t *testing.T) {
	set, err := tool.LoadFS(folder("search.web", living, nil), withMCP()...)
	if err != nil {
		t.Fatal(err)
	}
	m := set.List()[0]
	if e, ok := m.Endpoint.(mcp.Endpoint); !ok || e.Server != "web-fetch" || e.Tool != "search.web" {
		t.Errorf("endpoint %+v", m.Endpoint)
	}
	for name, class := range map[string]envelope.ErrorClass{
		"invalid_query": "I-REQ", "not_listening": "P-PRECOND", "parse_failed": "D-DATA", "launch_failed": "S-TOOL",
		"upstream_failure": "R-UPSTREAM", "timeout": "R-TIMEOUT",
	} {
		e := m.Errors[name]
		if e.Class != class || e.Message != strings.ReplaceAll(name, "_", " ") || e.Fix == "" || e.HTTPStatus == 0 {
			t.Errorf("%+v", e)
		}
	}
	without := strings.Replace(living, "{code: timeout, http_status: 504}", "{code: timeout}", 1)
	_, err = tool.LoadFS(folder("search.web", without, nil), withMCP()...)
	if err == nil || !strings.Contains(err.Error(), "errors[5].class is required") {
		t.Errorf("an error with its code alone: %v", err)
	}
}

// What an error of the manifest leaves out comes from its table in errors.md, which then is part of the build.
func TestErrorOfTwoFiles(t *testing.T) {
	const head = "## timeout\n\n| Class | HTTP status | Retryable | Meaning | Fix |\n|---|---|---|---|---|\n"
	digests := map[string]bool{}
	for _, fix := range []string{"wait", "wait longer"} {
		set, problems, err := tool.Lint(sourceFolder(t, "search.web", map[string]string{
			"tool.yaml": sourceManifest(t) + "errors: [{code: timeout, http_status: 504}]\n",
			"errors.md": head + "| R-UPSTREAM | 504 | yes | It is slow | " + fix + " |\n",
		}), transports()...)
		if err != nil || problems.Failed() {
			t.Fatalf("%v\n%v", err, problems)
		}
		m := set.List()[0]
		want := tool.ErrorSpec{Name: "timeout", Class: "R-UPSTREAM", HTTPStatus: 504, Message: "It is slow", Fix: fix}
		if diff := cmp.Diff(want, m.Errors["timeout"]); diff != "" {
			t.Error(diff)
		}
		digests[m.Digest] = true
	}
	if len(digests) != 2 {
		t.Error("the fix is no part of the digest")
	}
}

// A text as endpoint means what its transport says.
func TestEndpointAsText(t *testing.T) {
	for transport, want := range map[string]string{"process": "python3 ./main.py -v", "native": "greet"} {
		is := "transport: " + transport + "\nendpoint: " + want
		manifest := strings.Replace(living, "transport: mcp\nendpoint: web-fetch", is, 1)
		set, err := tool.LoadFS(folder("search.web", manifest, map[string]string{"main.py": ""}), transports()...)
		if err != nil || set.List()[0].Endpoint.Name() != want {
			t.Errorf("%s: %v", transport, err)
		}
	}
	blank := strings.Replace(living, "endpoint: web-fetch", `endpoint: " "`, 1)
	if _, err := tool.LoadFS(folder("search.web", blank, nil), withMCP()...); err == nil {
		t.Error("a blank endpoint is accepted")
	}
}
