package tool_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const schema = `{"type":"object","additionalProperties":false,"required":["url"],` +
	`"properties":{"url":{"type":"string","minLength":3}}}`

// minimal is the shortest manifest of a callable tool.
const minimal = `tool_id: web.fetch
semver: 1.0.0
owner: "@team-web"
description: Fetches a page.
determinism: pure
transport: native
functions:
  fetch:
    request: schema/request.json
    response: schema/response.json
`

// full has every field.
const full = `tool_id: web.fetch
semver: 2.3.4
owner: "@team-web"
title: Fetch a web page
description: |
  Fetches a page.
tags: [read, web]
status: deprecated
determinism: ExternalSideEffects
pool: gpu-1
transport: process
endpoint:
  command: [./bin/web-fetch, --quiet, ./data.txt]
  env: {LANG: C.UTF-8}
functions:
  fetch:
    description: Fetches one page.
    request: schema/request.json
    response: schema/response.json
    examples:
      - {name: good, input: {url: "http://x"}, output: {url: "http://x"}}
      - name: no output
        input:
          url: http://y
capabilities:
  fs: [/data]
  net_allowlist: ["https://api.example.com", "https://*.example.org:8443"]
  env: [HTTP_PROXY]
  streaming: true
  dry_run: true
  lookup: true
limits:
  timeout_ms_default: 1000
  timeout_ms_max: 2000
  memory_mb_max: 64
  concurrency_max: 3
  output_bytes_max: 4096
  stderr_bytes_max: 1024
retention_s: 3600
accept_rerun_after_power_loss: true
errors:
  - {code: fetch_failed, class: R-UPSTREAM, http_status: 502, message: no luck, fix: try later}
  - code: gone
    class: P-PRECOND
    message: gone
    fix: look elsewhere
notes: {transport: of its own}
`

// A side-effectful tool with a lookup has a timeout in which an executor is missed and another asks the lookup.
func TestLookupNeedsTime(t *testing.T) {
	if lease := 2 * bus.DefaultLease; lease != 10*time.Second {
		t.Errorf("the warning is for two leases of 5 s, not %s", lease)
	}
	const limits = "limits:\n  timeout_ms_default: 1000\n  timeout_ms_max: 2000\n"
	for to, warned := range map[string]bool{
		limits: true, "limits:\n  timeout_ms_max: 9999\n": true, "limits:\n  timeout_ms_default: 9999\n": true,
		"limits:\n  timeout_ms_default: 10000\n": false, "limits:\n": false,
	} {
		manifest := strings.Replace(full, limits, to, 1)
		for text, warned := range map[string]bool{
			manifest: warned, strings.Replace(manifest, "lookup: true", "lookup: false", 1): false,
			strings.Replace(manifest, "ExternalSideEffects", "idempotent", 1): false,
		} {
			_, problems, err := tool.Lint(sourceFolder(t, "web.fetch", map[string]string{
				"tool.yaml": text, "schema/request.json": schema, "schema/response.json": schema, "data.txt": "",
			}), transports()...)
			if got := strings.Contains(problems.Error(), "before the lookup is asked"); err != nil || got != warned {
				t.Errorf("%q: %v, %v", to, problems, err)
			}
		}
	}
}

// transports returns the transports of the manifests in these tests.
func transports() []tool.Transport { return []tool.Transport{process.Describe(), native.Describe()} }

// folder returns the files of one tool; "" as content leaves a default file out.
func folder(id, manifest string, more map[string]string) fstest.MapFS {
	files := map[string]string{
		"tool.yaml": manifest, "schema/request.json": schema, "schema/response.json": schema,
		"bin/web-fetch": "#!/bin/sh", "data.txt": "data",
	}
	for name, content := range more {
		files[name] = content
	}
	fsys := fstest.MapFS{}
	for name, content := range files {
		if content != "" {
			fsys[subjects.Token(id)+"/"+name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return fsys
}

func mustLoad(t *testing.T, fsys fstest.MapFS) *tool.Manifest {
	t.Helper()
	r, err := tool.LoadFS(fsys, transports()...)
	if err != nil {
		t.Fatal(err)
	}
	return r.List()[0]
}

// ofFiles ignores the fields of a manifest that depend on its files.
func ofFiles() cmp.Option {
	return cmpopts.IgnoreFields(tool.Manifest{}, "Functions", "Digest", "Whole", "programs", "program", "lost")
}

func TestLoadMinimal(t *testing.T) {
	got := mustLoad(t, folder("web.fetch", minimal, nil))
	want := &tool.Manifest{
		ToolID: "web.fetch", Semver: "1.0.0", Owner: "@team-web", Title: "web.fetch", Description: "Fetches a page.",
		Status: tool.StatusActive, Class: call.Pure, Effect: "pure", Pool: "default", Transport: native.Transport,
		Endpoint: native.Endpoint{Native: "web.fetch"}, Retention: 24 * time.Hour,
		Limits: envelope.ToolLimits{
			TimeoutDefaultMS: 15_000, TimeoutMaxMS: 60_000, MemoryMB: 512, Concurrency: 8,
			OutputBytes: 8 << 20, StderrBytes: 64 << 10,
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), ofFiles()); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	f, ok := got.Function("fetch")
	if !ok || f.Name != "fetch" || f.Request == nil || f.Response == nil {
		t.Errorf("function %+v", f)
	}
	if !got.Callable() {
		t.Error("an active tool is not callable")
	}
}

// A limit above the largest output is for chunks, and a warning says so.
func TestOutputLimitAboveTheLargestOutput(t *testing.T) {
	for limit, want := range map[int]int{envelope.MaxPayload: 0, envelope.MaxPayload + 1: 1} {
		manifest := fmt.Sprintf("%slimits: {output_bytes_max: %d}\n", minimal, limit)
		_, all, err := tool.Lint(onDisk(t, folder("web.fetch", manifest, nil)), transports()...)
		all = slices.DeleteFunc(all, func(p tool.Problem) bool {
			return p.Message != "the output alone has at most 67108864 bytes"
		})
		if err != nil || len(all) != want || want > 0 && (all[0].Severity != tool.Warning || all[0].Line != 11) {
			t.Errorf("%d: %+v, %v", limit, all, err)
		}
	}
}

func TestLoadFull(t *testing.T) {
	got := mustLoad(t, folder("web.fetch", full, nil))
	want := &tool.Manifest{
		ToolID: "web.fetch", Semver: "2.3.4", Owner: "@team-web", Title: "Fetch a web page", Description: "Fetches a page.\n",
		Tags: []string{"read", "web"}, Status: tool.StatusDeprecated, Class: call.SideEffectful,
		Effect: "ExternalSideEffects", Pool: "gpu-1", Transport: process.Transport,
		Endpoint: process.Endpoint{
			Command: []string{"./bin/web-fetch", "--quiet", "./data.txt"}, Env: map[string]string{"LANG": "C.UTF-8"},
		},
		Capability: tool.Capabilities{
			FS: []string{"/data"}, NetAllowlist: []string{"https://api.example.com", "https://*.example.org:8443"},
			Env: []string{"HTTP_PROXY"}, Streaming: true, DryRun: true, Lookup: true,
		},
		Limits: envelope.ToolLimits{
			TimeoutDefaultMS: 1000, TimeoutMaxMS: 2000, MemoryMB: 64, Concurrency: 3, OutputBytes: 4096, StderrBytes: 1024,
		},
		ConcurrencyGiven: true, Retention: time.Hour, AcceptRerun: true,
		Errors: map[string]tool.ErrorSpec{
			"fetch_failed": {Name: "fetch_failed", Class: envelope.ClassUpstream, HTTPStatus: 502, Message: "no luck",
				Fix: "try later"},
			"gone": {Name: "gone", Class: envelope.ClassPrecondition, Message: "gone", Fix: "look elsewhere"},
		},
		ErrorNames: []string{"fetch_failed", "gone"}, Notes: tool.Notes{Transport: "of its own"},
		DeclaredOnly: []string{"capabilities.net_allowlist", "limits.memory_mb_max"},
	}
	if diff := cmp.Diff(want, got, ofFiles()); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	f, ok := got.Function("fetch")
	if !ok || len(f.Examples) != 2 {
		t.Fatalf("function %+v", f)
	}
	if in, out := string(f.Examples[0].Input), f.Examples[1].Output; in != `{"url":"http://x"}` || out != nil {
		t.Errorf("examples %s, %s", in, out)
	}
	if _, ok := got.Function("other"); ok {
		t.Error("there is a function that was not declared")
	}
}

// TestProblems checks that every problem is reported with its position and a hint.
func TestProblems(t *testing.T) {
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(full) }
	const at = "web_2efetch/tool.yaml"
	tests := []struct {
		name, manifest string
		more           map[string]string
		want           []string // prefixes of the lines
	}{
		{"not YAML", "a: [1", nil, []string{at + ":1:"}},
		{"empty", "", map[string]string{"tool.yaml": "\n"}, []string{at + ":1:1: the manifest is empty (start from"}},
		{"only a comment", "# nothing\n", nil, []string{at + ":1:1: the manifest is empty"}},
		{"two documents", minimal + "---\na: 1\n", nil,
			[]string{at + ":11:1: a second YAML document begins (a file holds one manifest"}},
		{"a document after an end", minimal + "...\na: 1\n", nil, []string{at + ":12:"}},
		{"a tab", minimal + "endpoint:\n\tnative: x\n", nil,
			[]string{at + ":12:1: the line is indented with a tab (indent with spaces)"}},
		{"a tab in a text", minimal + "pool: |\n\tx\n", nil, []string{at + ":12:1: the line is indented with a tab"}},
		{"a tab elsewhere", minimal + "pool: [x\t\n", nil,
			[]string{at + ":11:7: sequence end token ']' not found (look for a bracket"}},
		{"a list", "- 1\n", nil, []string{
			at + ":1:1: the manifest must be a mapping, not a list",
		}},
		{"not UTF-8", minimal + "# \xff", nil, []string{at + ":11:3: the file is not UTF-8 (save it as UTF-8)"}},
		{"UTF-16", "\ufefft\x00o\xff", nil, []string{at + ":1:4: the file is not UTF-8"}},
		{"too large", minimal + "#" + strings.Repeat("x", 1<<20), nil,
			[]string{at + ": larger than allowed (1048576 bytes)"}},
		{"too many tokens", minimal + "tags: [" + strings.Repeat("a,", 20_000) + "]", nil,
			[]string{at + ": the file has more than 20000 YAML tokens"}},
		{"too deep", minimal + "tags: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), nil,
			[]string{at + ":11:71: values are nested too deeply"}},
		{"too deep on one line", minimal + "tags:\n" + strings.Repeat("- ", 200) + "a", nil,
			[]string{at + ":12:257: values are nested too deeply"}},
		{"anchor", "tool_id: &a x\n", nil, []string{at +
			`:1:10: "&" is not allowed in a manifest (manifests are plain data`}},
		{"alias", "tool_id: *a\n", nil, []string{at + `:1:10: "*" is not allowed`}},
		{"tag", "tool_id: !!str x\n", nil, []string{at + `:1:10: "!!str" is not allowed`}},
		{"merge", "<<: {tool_id: x}\n", nil, []string{at + `:1:1: "<<" is not allowed`}},
		{"unknown field", minimal + "sumver: 1.0.0\nzzzzzzzzz: 1\n", nil, []string{
			at + `:11:1: unknown field "sumver" (did you mean "semver"?)`,
			at + `:12:1: unknown field "zzzzzzzzz" (allowed: accept_rerun_after_power_loss, allowed_lanes,`,
		}},
		{"misspelt required fields", strings.NewReplacer("semver", "sumver", "functions:", "function:").Replace(minimal), nil,
			[]string{
				at + `:2:1: unknown field "sumver" (did you mean "semver"?)`,
				at + `:7:1: unknown field "function" (did you mean "functions"?)`,
			}},
		{"a field that begins like another", minimal + "retries: 3\n", nil,
			[]string{at + `:11:1: unknown field "retries" (did you mean "retry_policy"?)`}},
		{"unknown field within", replace("streaming: true", "streamin: true"), nil, []string{
			at + `:29:3: unknown field "streamin" (did you mean "streaming"?)`,
		}},
		{"given twice", minimal + "semver: 2.0.0\n", nil,
			[]string{at + `:11:1: "semver" is given twice (it stands in line 2 already)`}},
		{"given twice within", replace("LANG: C.UTF-8", "LANG: a, LANG: b"), nil,
			[]string{at + `:14:18: "endpoint.env.LANG" is given twice`}},
		{"wrong types", strings.NewReplacer(
			`"@team-web"`, "7", "1.0.0", "1.0", "Fetches a page.", "[]", "functions:\n  fetch:\n",
			"retention_s: a day\ntags: {}\nlimits:\nfunctions:\n  fetch:\n",
		).Replace(minimal) + "accept_rerun_after_power_loss: yes\n", nil, []string{
			at + ":2:9: semver must be a string, not a number (write it as 1.2.3)",
			at + ":3:8: owner must be a string, not a number (write it in quotes)",
			at + ":4:14: description must be a string, not a list",
			at + ":7:14: retention_s must be a whole number, not a string",
			at + ":8:7: tags must be a list, not a mapping",
			at + ":9:8: limits must be a mapping, not empty (give it a value or leave it out)",
			at + ":14:32: accept_rerun_after_power_loss must be true or false, not a string",
		}},
		{"a byte order mark", "\ufeff" + minimal + "pool: 1\n", nil, []string{at + ":11:7: pool must be a string"}},
		{"a bare command", replace("[./bin/web-fetch, --quiet, ./data.txt]", "./bin/web-fetch"), nil, []string{
			at + ":13:12: endpoint.command must be a list, not a string (write it in brackets: [a, b])",
		}},
		{"a key of another kind", minimal + "1: 2\n", nil,
			[]string{at + ":11:1: a key must be a string (write it in quotes)"}},
		{"too large a number", minimal + "retention_s: 99999999999999999999\n", nil,
			[]string{at + ":11:14: retention_s is 1e+20 (allowed: 1 to 31536000)"}},
		{"nothing given", "title: x\n", nil, []string{
			at + ":1:1: description is required", at + ":1:1: determinism is required",
			at + ":1:1: owner is required", at + ":1:1: semver is required", at + ":1:1: tool_id is required",
			at + ":1:1: functions or schema is required (schema: {request: schema/request.json,",
		}},
		{"bad id", replace("web.fetch", "Web Fetch"), nil, []string{
			at + `:1:10: "Web Fetch" is not a tool id (lower-case letters`,
		}},
		{"another folder", replace("web.fetch", "web.search"), nil, []string{
			at + ":1:10: the folder of web.search is web_2efetch (rename it to web_2esearch or web.search)",
		}},
		{"another folder, one name", replace("web.fetch", "fetch"), nil, []string{
			at + ":1:10: the folder of fetch is web_2efetch (rename it to fetch)",
		}},
		{"bad version", replace("2.3.4", "v2.3"), nil,
			[]string{at + `:2:9: "v2.3" is not a semantic version (write it as 1.2.3)`}},
		{"bad words", replace("status: deprecated", "status: activ", "ExternalSideEffects", "Idempotent",
			"transport: process", "transport: proces"), nil, []string{
			at + `:8:9: "activ" is not a value of status (did you mean "active"?)`,
			at + `:9:14: "Idempotent" is not a value of determinism (did you mean "idempotent"?)`,
			at + `:11:12: "proces" is not a value of transport (did you mean "process"?)`,
		}},
		{"no version", replace("semver: 2.3.4", `semver: ""`), nil, []string{at + `:2:9: semver is required`}},
		{"bad pool", replace("gpu-1", "GPU 1"), nil, []string{at + `:10:7: "GPU 1" is not a pool name`}},
		{"native with a command", strings.Replace(full, "transport: process", "transport: native", 1), nil, []string{
			at + `:13:3: unknown field "command" (allowed: build, native)`,
			at + `:14:3: unknown field "env" (allowed: build, native)`,
		}},
		{"process with a native name", replace("  env: {LANG: C.UTF-8}", "  native: x"), nil,
			[]string{at + `:14:3: unknown field "native" (allowed: command, env)`}},
		{"commands that cannot be", replace("[./bin/web-fetch, --quiet, ./data.txt]", `["", "a\0b"]`, "C.UTF-8", `"a\0b"`),
			nil, []string{
				at + ":13:13: the program has no name", at +
					`:13:17: "a\x00b" is not something that a program can be given (no argument has a NUL byte)`,
				at + `:14:15: "a\x00b" is not something that a program can be given (no value has a NUL byte)`,
			}},
		{"variables that make programs run foreign code",
			replace("{LANG: C.UTF-8}", "{LD_PRELOAD: x, A-B: y}", "env: [HTTP_PROXY]",
				"env: [NODE_OPTIONS, BASH_FUNC_x]"), nil, []string{
				at + `:14:9: "LD_PRELOAD" makes programs run foreign code (leave it out)`,
				at + `:14:24: "A-B" is not a variable name`,
				at + `:28:9: "NODE_OPTIONS" makes programs run foreign code`,
				at + `:28:23: "BASH_FUNC_x" makes programs run foreign code`,
			}},
		{"the executor's own variable", replace("HTTP_PROXY", "TOOLBUS_CREDENTIALS"), nil,
			[]string{at + `:28:9: "TOOLBUS_CREDENTIALS" is the executor's own (leave it out: a tool has no business`}},
		{"a variable twice", replace("HTTP_PROXY", "LANG"), nil,
			[]string{at + `:28:9: "LANG" is also set in endpoint.env (keep one of the two)`}},
		{"bad scopes", replace("[/data]", `["", ../x]`, "https://api.example.com", "https://api.example.com/v1"), nil,
			[]string{
				at + `:26:8: "" is not a folder name`, at + `:26:12: "../x" is not a folder name`,
				at + `:27:19: "https://api.example.com/v1" is not scheme://host[:port] (for example`,
			}},
		{"limits out of range", replace("timeout_ms_max: 2000", "timeout_ms_max: 600001", "memory_mb_max: 64",
			"memory_mb_max: 1",
			"concurrency_max: 3", "concurrency_max: 0", "output_bytes_max: 4096", "output_bytes_max: -1",
			"stderr_bytes_max: 1024", "stderr_bytes_max: 1",
			"retention_s: 3600", "retention_s: 0"), nil, []string{
			at + ":34:19: limits.timeout_ms_max is 600001 (allowed: 1 to 600000)",
			at + ":35:18: limits.memory_mb_max is 1 (allowed: 16 to",
			at + ":36:20: limits.concurrency_max is 0 (allowed: 1 to",
			at + ":37:21: limits.output_bytes_max is -1 (allowed: 1 to",
			at + ":38:21: limits.stderr_bytes_max is 1 (allowed: 256 to",
			at + ":39:14: retention_s is 0 (allowed: 1 to",
		}},
		{"default above maximum", replace("timeout_ms_default: 1000", "timeout_ms_default: 3000"), nil, []string{
			at + ":33:23: the default timeout is longer than the maximum (at most 2000)",
		}},
		{"bad errors", replace("fetch_failed", "Fetch-Failed", "class: P-PRECOND", "class: P-PRECONDITION",
			"http_status: 502", "http_status: 200",
			"code: gone", "code: gone\n    class2: x", "fix: look elsewhere", "fix: ''\n  - {code: gone, class: S-TOOL, "+
				"message: x, fix: y}"), nil, []string{
			at + `:42:12: "Fetch-Failed" is not an error name`,
			at + `:42:58: errors[0].http_status is 200 (allowed: 400 to 599)`,
			at + `:44:5: unknown field "class2" (did you mean "class"?)`,
			at + `:45:12: "P-PRECONDITION" is not a value of errors[1].class (did you mean "P-PRECOND"?)`,
			at + `:47:10: errors[1].fix is required`,
			at + `:48:12: the error "gone" is declared twice`,
		}},
		{"bad function", replace("  fetch:\n", "  Fetch:\n"), nil, []string{at + `:16:3: "Fetch" is not a function name`}},
		{"schemas that are not there", replace("request: schema/request.json", "request: schema/missing.json",
			"response: schema/response.json", "response: ../x/schema.json"), nil, []string{
			at + ":18:14: schema/missing.json: file does not exist (a schema lies in the tool's own folder)",
			at + ":19:15: ../x/schema.json: invalid argument (a schema lies in",
		}},
		{"no schema", replace("    request: schema/request.json\n", ""), nil,
			[]string{at + ":17:5: functions.fetch.request is required"}},
		{"schema that does not compile", full, map[string]string{"schema/request.json": `{"type":"objekt"}`}, []string{
			at + ":18:14: schema schema/request.json: ",
		}},
		{"more than callers can be told", full, map[string]string{
			"schema/request.json": `{"description":"` + strings.Repeat("x", tool.MaxDescribed) + `"}`,
		}, []string{at + ":16:3: "}},
		{"schema that refers elsewhere", full, map[string]string{"schema/request.json": `{"$ref":"../../other/x.json"}`},
			[]string{at + ":18:14: "}},
		{"schema that is a folder", replace("request: schema/request.json", "request: schema"), nil,
			[]string{at + ":18:14: schema: not a regular file"}},
		{"examples that break their schema", replace(`{url: "http://x"}, output: {url: "http://x"}`,
			`{url: "x"}, output: {uri: 7}`), nil, []string{
			at + `:21:29: the example breaks its schema at "/url": `,
			at + `:21:49: the example breaks its schema at `, at + `:21:49: the example breaks its schema at `,
		}},
		{"examples without input", replace("      - name: no output\n        input:\n          url: http://y\n",
			"      - output: {url: abc}\n"), nil, []string{
			at + ":22:9: functions.fetch.examples[1].input is required",
		}},
		{"example that is no JSON", replace(`url: "http://x"}, output`, `url: .inf, x: .nan}, output`), nil, []string{
			at + ":21:35: a number has no JSON form", at + ":21:44: a number has no JSON form",
		}},
		{"a very long name", minimal + strings.Repeat("x", 400) + ": 1\n", nil, []string{at + `:1:1: unknown field "xxx`}},
		{"no program", full, map[string]string{"bin/web-fetch": ""}, []string{
			at + ":13:13: bin/web-fetch: file does not exist (the program lies in the tool's own folder; build it first)",
		}},
		{"all arguments as one", replace("./bin/web-fetch", "python3 ./main.py"), nil, []string{
			at + ":13:13: python3 ./main.py: file does not exist (write each argument as an item: [python3, ./main.py])",
		}},
		{"program elsewhere", replace("./bin/web-fetch", "../other/program"), nil,
			[]string{at + ":13:13: ../other/program: invalid argument (a program outside of the tool's folder has an "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := tool.LoadFS(folder("web.fetch", test.manifest, test.more), transports()...)
			var problems tool.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("no problems but %v", err)
			}
			lines := strings.Split(problems.Error(), "\n")
			if len(lines) != len(test.want) {
				t.Fatalf("%d problems, want %d:\n%s", len(lines), len(test.want), problems.Error())
			}
			for i, want := range test.want {
				if problems[i].Hint == "" || strings.ContainsRune(lines[i], '\t') {
					t.Errorf("problem %d has no hint, or shows a tab: %s", i, lines[i])
				}
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("problem %d:\n got %s\nwant %s", i, lines[i], want)
				}
			}
		})
	}
}

// TestSchemaHints checks the hints for invalid schemas.
func TestSchemaHints(t *testing.T) {
	for schema, hint := range map[string]string{
		`{"type":"objekt"}`:                     "(correct the schema at the place that is named",
		`{"pattern":"(?=a)"}`:                   "(patterns are RE2",
		`{"$ref":"https://example.com/x.json"}`: "(refer only to files in the tool's own folder",
		`{"$ref":"file:///etc/passwd"}`:         "(refer only to files in the tool's own folder",
		`{"$ref":"../../other/x.json"}`:         "(put the file there",
		`{"$ref":"missing.json"}`:               "(put the file there",
		`{"$ref":"#/$defs/x"}`:                  "(a schema is one JSON document",
		`{`:                                     "(a schema is one JSON document",
	} {
		_, err := tool.LoadFS(folder("web.fetch", full, map[string]string{"schema/request.json": schema}), transports()...)
		if err == nil || !strings.HasPrefix(err.Error(), "web_2efetch/tool.yaml:18:14: ") ||
			!strings.Contains(err.Error(), hint) {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// TestProblemsOfMany shows that the problems of all manifests come at once.
func TestProblemsOfMany(t *testing.T) {
	fsys := folder("web.fetch", "semver: x", nil)
	for name, file := range folder("a.b", "semver: y", nil) {
		fsys[name] = file
	}
	fsys["README.md"] = &fstest.MapFile{Data: []byte("not a tool")}
	fsys[".git/config"] = &fstest.MapFile{Data: []byte("not a tool")}
	fsys["empty/x"] = &fstest.MapFile{}
	_, err := tool.LoadFS(fsys, transports()...)
	for _, file := range []string{"a_2eb/tool.yaml:", "web_2efetch/tool.yaml:",
		"empty/tool.yaml: file does not exist"} {
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("nothing of %s in:\n%v", file, err)
		}
	}
}

func TestNotCallable(t *testing.T) {
	for _, status := range []string{"planned", "disabled"} {
		m := mustLoad(t, folder("web.fetch", strings.Replace(full, "deprecated", status, 1),
			map[string]string{"bin/web-fetch": ""}))
		if m.Callable() {
			t.Errorf("a %s tool is callable", status)
		}
	}
	without := strings.Replace(minimal, "native", "process\nstatus: planned", 1)
	if m := mustLoad(t, folder("web.fetch", without, nil)); m.Callable() {
		t.Error("a planned tool is callable")
	}
}

func TestNames(t *testing.T) {
	for _, id := range []string{"local::fs.write", "mcp::github::issues.create", "a", "0.9_-"} {
		m := mustLoad(t, folder(id, strings.Replace(minimal, "web.fetch", `"`+id+`"`, 1), nil))
		if m.ToolID != id {
			t.Errorf("got %q, want %q", m.ToolID, id)
		}
	}
	for _, effect := range []string{"Pure", "IdempotentWrite", "NonIdempotentWrite", "ExternalSideEffects", "pure",
		"idempotent", "side_effectful"} {
		m := mustLoad(t, folder("web.fetch", strings.Replace(minimal, ": pure", ": "+effect, 1), nil))
		want := map[string]call.EffectClass{
			"Pure": call.Pure, "IdempotentWrite": call.Idempotent, "NonIdempotentWrite": call.SideEffectful,
			"ExternalSideEffects": call.SideEffectful,
		}
		if m.Effect != effect || (want[effect] != "" && m.Class != want[effect]) ||
			(want[effect] == "" && string(m.Class) != effect) {
			t.Errorf("%s: class %s, effect %s", effect, m.Class, m.Effect)
		}
	}
}

// TestDigest shows what changes a digest, and what does not.
func TestDigest(t *testing.T) {
	base := mustLoad(t, folder("web.fetch", full, nil)).Digest
	if !strings.HasPrefix(base, "sha256:") || len(base) != len("sha256:")+64 {
		t.Fatalf("digest %q", base)
	}
	same := map[string]fstest.MapFS{
		"comments and layout": folder("web.fetch",
			"# a comment\n"+strings.Replace(full, "tags: [read, web]", "tags:\n  - read\n  - \"web\"", 1), nil),
		"order":        folder("web.fetch", strings.TrimPrefix(full, "tool_id: web.fetch\n")+"tool_id: web.fetch\n", nil),
		"another file": folder("web.fetch", full, map[string]string{"README.md": "hello"}),
	}
	for name, fsys := range same {
		if got := mustLoad(t, fsys).Digest; got != base {
			t.Errorf("%s changed the digest", name)
		}
	}
	other := map[string]fstest.MapFS{
		"manifest": folder("web.fetch", strings.Replace(full, "2.3.4", "2.3.5", 1), nil),
		"example":  folder("web.fetch", strings.Replace(full, "http://y", "http://z", 1), nil),
		"schema":   folder("web.fetch", full, map[string]string{"schema/request.json": schema + " "}),
		"program":  folder("web.fetch", full, map[string]string{"bin/web-fetch": "#!/bin/bash"}),
		"argument": folder("web.fetch", full, map[string]string{"data.txt": "other"}),
		"referred schema": folder("web.fetch", full, map[string]string{
			"schema/request.json": `{"$ref":"other.json"}`, "schema/other.json": schema,
		}),
		"referred schema's content": folder("web.fetch", full, map[string]string{
			"schema/request.json": `{"$ref":"other.json"}`, "schema/other.json": schema + "\n",
		}),
	}
	seen := map[string]string{base: "the base"}
	for name, fsys := range other {
		got := mustLoad(t, fsys).Digest
		if before, double := seen[got]; double {
			t.Errorf("%s has the digest of %s", name, before)
		}
		seen[got] = name
	}
}

// onDisk writes the files of a tool to a folder and returns the tools folder.
func onDisk(t *testing.T, fsys fstest.MapFS) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, fsys); err != nil {
		t.Fatal(err)
	}
	for name := range fsys {
		if strings.Contains(name, "/bin/") {
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestLoadFolder(t *testing.T) {
	dir := onDisk(t, folder("web.fetch", full, nil))
	r, err := tool.Load(dir, transports()...)
	if err != nil {
		t.Fatal(err)
	}
	m, missed := r.Get("web.fetch", "")
	if missed != nil || m.Dir != filepath.Join(dir, "web_2efetch") {
		t.Errorf("folder %q", m.Dir)
	}
	if m.Digest != mustLoad(t, folder("web.fetch", full, nil)).Digest {
		t.Error("the digest depends on where the tool lies")
	}
	program := filepath.Join(dir, "web_2efetch/bin/web-fetch")
	if err := os.Chmod(program, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Load(dir, transports()...); err == nil ||
		!strings.Contains(err.Error(), ":13:13: bin/web-fetch is not executable (chmod +x") {
		t.Errorf("a program that cannot be started: %v", err)
	}
	if _, err := tool.Load(filepath.Join(dir, "missing"), transports()...); err == nil {
		t.Error("a folder that does not exist was loaded")
	}
	if _, err := tool.LoadFS(os.DirFS(filepath.Join(dir, "missing")), transports()...); err == nil {
		t.Error("a file system that does not exist was loaded")
	}
}

// TestEscape checks that no file of a tool may lie outside its folder, not even behind a link.
func TestEscape(t *testing.T) {
	for name, plant := range map[string]struct{ link, target string }{
		"schema outside":      {"web_2efetch/schema/request.json", "../../../outside.json"},
		"schema of another":   {"web_2efetch/schema/request.json", "../../a_2eb/schema/request.json"},
		"absolute":            {"web_2efetch/schema/request.json", "/etc/passwd"},
		"program outside":     {"web_2efetch/bin/web-fetch", "../../a_2eb/bin/web-fetch"},
		"manifest of another": {"web_2efetch/tool.yaml", "../a_2eb/tool.yaml"},
		"the folder itself":   {"web_2efetch", ".."},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := folder("web.fetch", full, nil)
			for name, file := range folder("a.b", strings.Replace(minimal, "web.fetch", "a.b", 1), nil) {
				fsys[name] = file
			}
			dir := onDisk(t, fsys)
			link := filepath.Join(dir, plant.link)
			if err := errors.Join(os.RemoveAll(link), os.Symlink(plant.target, link)); err != nil {
				t.Fatal(err)
			}
			_, err := tool.Load(dir, transports()...)
			if err == nil || !strings.Contains(err.Error(), "path escapes from parent") {
				t.Errorf("got %v", err)
			}
			const hint = "it is a link to a program elsewhere: write the absolute path of that program"
			if strings.Contains(err.Error(), hint) != (name == "program outside") {
				t.Errorf("the hint is wrong: %v", err)
			}
		})
	}
	// A link that stays inside is fine.
	dir := onDisk(t, folder("web.fetch", full, map[string]string{"schema/request.json": ""}))
	if err := os.Symlink("response.json", filepath.Join(dir, "web_2efetch/schema/request.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Load(dir, transports()...); err != nil {
		t.Error(err)
	}
}

func TestRegistry(t *testing.T) {
	fsys := fstest.MapFS{}
	var want []string
	for i := range 1000 {
		id := fmt.Sprintf("tool%d.x", i)
		want = append(want, id)
		lean := map[string]string{"bin/web-fetch": "", "data.txt": ""}
		for name, file := range folder(id, strings.Replace(minimal, "web.fetch", id, 1), lean) {
			fsys[name] = file
		}
	}
	dir := onDisk(t, fsys)
	start := time.Now()
	r, err := tool.Load(dir, transports()...)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("1,000 tools loaded in %v", took)
	if took > 30*time.Second {
		t.Errorf("loading 1,000 tools took %v", took)
	}
	slices.Sort(want)
	var got []string
	for _, m := range r.List() {
		got = append(got, m.ToolID)
	}
	if !slices.Equal(got, want) || r.Len() != 1000 {
		t.Errorf("%d tools, in order: %t", r.Len(), slices.IsSorted(got))
	}
	if m, missed := r.Get("tool7.x", ""); m == nil || missed != nil {
		t.Error("a tool is missing")
	}
	if id, ok := r.Named("tool7_2ex"); !ok || id != "tool7.x" {
		t.Error("a tool is not found by its token")
	}
	if _, ok := r.Named("tool7"); ok {
		t.Error("found a tool that is not there")
	}
	if m, missed := r.Get("tool7", ""); m != nil || missed == nil {
		t.Error("there is a tool that was not loaded")
	}
	r.List()[0] = nil
	if r.List()[0] == nil {
		t.Error("a caller changed the registry")
	}
}

// FuzzLoad checks that no manifest makes the loader panic, and that an accepted one is usable.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(full))
	f.Add([]byte("a: [1, {b: *c}]\n? x\n: - - - y\n"))
	f.Add([]byte("tool_id: |\n  x\nfunctions: {a: {examples: [{input: 0x1F}, {input: ~}]}}"))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		r, err := tool.LoadFS(folder("web.fetch", string(manifest), nil), transports()...)
		var problems tool.Problems
		switch {
		case err != nil && !errors.As(err, &problems):
			if len(manifest) > 0 {
				t.Errorf("error of an unknown kind: %v", err)
			}
		case err == nil && r.Len() == 1:
			m := r.List()[0]
			if m.ToolID != "web.fetch" || len(m.Functions) == 0 || m.Limits.Longest() <= 0 || m.Class == "" || m.Digest == "" {
				t.Errorf("an unusable manifest was accepted: %+v", m)
			}
		}
	})
}

// Only folders are tools. Load does not open files that would block, such as a named pipe.
func TestWhatIsNoFolder(t *testing.T) {
	dir := onDisk(t, folder("web.fetch", full, nil))
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := load(t, dir); err != nil || r.Len() != 1 {
		t.Errorf("with a named pipe among the folders: %v", err)
	}
	if err := os.Symlink("pipe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, dir); err == nil || !strings.Contains(err.Error(), "link: not a folder") {
		t.Errorf("with a link to a named pipe: %v", err)
	}
}

// load is tool.Load with a time limit.
func load(t *testing.T, dir string) (*tool.Set, error) {
	t.Helper()
	type result struct {
		registry *tool.Set
		err      error
	}
	done := make(chan result, 1)
	go func() {
		r, err := tool.Load(dir, transports()...)
		done <- result{r, err}
	}()
	select {
	case r := <-done:
		return r.registry, r.err
	case <-time.After(10 * time.Second):
		t.Fatal("the tools folder is still being read")
		return nil, nil
	}
}

// TestSchemaOfManifests compares the numbers and names in the schema with those in the code.
func TestSchemaOfManifests(t *testing.T) {
	raw, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	at := func(path string) any {
		value := document
		for name := range strings.SplitSeq(path, "/") {
			value = value.(map[string]any)[name]
		}
		return value
	}
	for path, want := range map[string]float64{
		"properties/tool_id/maxLength":                            envelope.MaxToolID,
		"properties/limits/properties/timeout_ms_max/maximum":     envelope.MaxTimeoutMS,
		"properties/limits/properties/memory_mb_max/minimum":      envelope.MinMemoryMB,
		"properties/limits/properties/stderr_bytes_max/maximum":   envelope.MaxStderr,
		"properties/limits/properties/stderr_bytes_max/default":   envelope.MaxStderr,
		"properties/limits/properties/timeout_ms_default/maximum": envelope.MaxTimeoutMS,
	} {
		if got := at(path); got != want {
			t.Errorf("%s is %v, and in the code %v", path, got, want)
		}
	}
	if got := at("properties/pool/default"); got != tool.DefaultPool {
		t.Errorf("the default pool is %v", got)
	}
	for _, effect := range at("properties/determinism/enum").([]any) {
		manifest := strings.Replace(minimal, ": pure", ": "+effect.(string), 1)
		if m := mustLoad(t, folder("web.fetch", manifest, nil)); m.Class == "" {
			t.Errorf("%s is of no class", effect)
		}
	}
}

// A folder with a servers.json and no manifest is a separate folder of tools. With a manifest it is a tool.
func TestFolderOfToolsInAFolderOfTools(t *testing.T) {
	files := folder("web.fetch", minimal, nil)
	files["mcp/servers.json"] = &fstest.MapFile{Data: []byte(`{}`)}
	files["mcp/shop_2esell/tool.yaml"] = &fstest.MapFile{Data: []byte("not read")}
	r, err := tool.LoadFS(files, transports()...)
	if err != nil || len(r.List()) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := tool.LoadFS(fstest.MapFS{"tools/a/tool.yaml": {}}); err == nil ||
		!strings.Contains(err.Error(), "(this folder contains tools itself: did you mean --tools tools?)") {
		t.Errorf("the folder above: %v", err)
	}
	files["mcp/tool.yaml"] = &fstest.MapFile{Data: []byte("is read")}
	if _, err := tool.LoadFS(files, transports()...); err == nil || !strings.Contains(err.Error(), "mcp/tool.yaml") {
		t.Errorf("the manifest was not read: %v", err)
	}
}

// Folders that Python and npm write are no tools, unless they have a manifest. Any other folder without one is a
// problem, which says where it can be.
func TestFoldersOfPackages(t *testing.T) {
	files := folder("web.fetch", minimal, nil)
	for _, name := range []string{"__pycache__", "node_modules", "venv"} {
		files[name+"/x/package.json"] = &fstest.MapFile{}
	}
	if r, err := tool.LoadFS(files, transports()...); err != nil || r.Len() != 1 {
		t.Fatal(err)
	}
	files["node_modules/tool.yaml"], files["src/main.py"] = &fstest.MapFile{}, &fstest.MapFile{}
	_, err := tool.LoadFS(files, transports()...)
	if err == nil || !strings.Contains(err.Error(), "node_modules/tool.yaml:1:1: the manifest is empty") ||
		!strings.Contains(err.Error(), "src/tool.yaml: file does not exist (every folder here needs a tool.yaml") {
		t.Errorf("%v", err)
	}
}
