package memory

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
)

// toolsBound and pushBound are half as much again as what a dispatcher takes that has many tools and their policy, 106
// to 111 MB, and what it takes for a moment while an operator pushes that policy, 166 MB.
const (
	manyTools  = 5000
	toolsBound = 166_000_000
	pushBound  = 250_000_000
)

// manyManifest is the manifest of a tool as imported ones are: most of it is text, and the schemas.
const manyManifest = `tool_id: files.tool_%[1]d
semver: 1.0.0
owner: "@team-files"
title: Files %[1]d
description: %[2]s
tags: [mcp, files]
determinism: idempotent
read_only: true
transport: native
functions:
  find: {description: "%[2]s", request: request.json, response: response.json}
limits: {timeout_ms_default: 15000, timeout_ms_max: 60000, concurrency_max: 64}
errors:
  - {code: not_found, class: P-PRECOND, http_status: 404, message: There is no such file, fix: check the path}
`

const manyRequest = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","format":"path","description":"the file or folder, relative to the folder of the server"},
"pattern":{"type":"string","description":"what names have to match, as in a shell"},
"exclude":{"type":"array","items":{"type":"string"},"description":"what names must not match"},
"head":{"type":"integer","minimum":0,"description":"how many lines from the beginning"},
"tail":{"type":"integer","minimum":0,"description":"how many lines from the end"},
"sort":{"type":"string","enum":["name","size"],"description":"by name or by size"},
"follow":{"type":"boolean","description":"whether links are followed"}}}`

const manyResponse = `{"type":"object","required":["text"],"properties":{
"text":{"type":"string","description":"what was found"},
"files":{"type":"array","items":{"type":"string"},"description":"the files that it was found in"}}}`

// writeMany writes a folder of tools.
func writeMany(t *testing.T, dir string) {
	t.Helper()
	description := strings.TrimSpace(strings.Repeat("Lists what is in a folder, with sizes and times. ", 5))
	for i := range manyTools {
		folder := filepath.Join(dir, fmt.Sprintf("files_2etool_5f%d", i))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"tool.yaml": fmt.Sprintf(manyManifest, i, description), "request.json": manyRequest, "response.json": manyResponse,
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// pushMany puts a policy for all tools of a folder in force, twice.
func pushMany(t *testing.T, url, dir string) {
	t.Helper()
	tools, err := tool.Load(dir, native.Describe())
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Generate(tools.List())
	if err != nil {
		t.Fatal(err)
	}
	operator, err := admin.Connect(t.Context(), url, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = operator.Close() }() // nothing is in flight
	revision := uint64(0)
	for range 2 {
		set.ToolRegistry = append(set.ToolRegistry, "# once more\n"...)
		if revision, err = operator.PushPolicy(t.Context(), admin.Policy(set), revision, "a test"); err != nil {
			t.Fatal(err)
		}
	}
}

// A dispatcher holds what it needs of its tools and their policy, and gives back what reading them has left.
func TestManyTools(t *testing.T) {
	url, dir := natstest.Start(t).URL, t.TempDir()
	writeMany(t, dir)
	binary := filepath.Join(t.TempDir(), "dispatcher")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/dispatcher")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, binary, "--server", url, "--tools", dir, "--insecure-no-auth")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = cmd.Wait()
	}()
	if lines := bufio.NewScanner(out); !lines.Scan() || !strings.Contains(lines.Text(), "is serving 5000 tools") {
		t.Fatalf("the dispatcher says %q", lines.Text())
	}
	pid := cmd.Process.Pid
	t.Logf("without a policy %.1f MB, %.1f at most", mb(resident(t, pid, "VmRSS:")), mb(resident(t, pid, "VmHWM:")))
	pushMany(t, url, dir)
	all, peak := resident(t, pid, "VmRSS:"), resident(t, pid, "VmHWM:")
	t.Logf("with a policy %.1f MB, %.1f at most", mb(all), mb(peak))
	if all > toolsBound || peak > pushBound {
		t.Errorf("%d bytes are resident, and %d for a moment, want %d and %d at most", all, peak, toolsBound, pushBound)
	}
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
