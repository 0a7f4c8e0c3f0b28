//go:build linux

package mcptools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
	mcptools "github.com/seed-018f16cc/toolbus/tools/mcp"
)

// This binary plays several parts: it is the test, the supervisor, and the models that mlxctl starts.
func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	if len(os.Args) > 3 && os.Args[1] == "model" {
		syscall.Exit(model(os.Args[2], os.Args[3]))
	}
	os.Exit(run(m))
}

// built is the folder of the servers' programs.
var built string

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mcptools")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	built = dir
	return m.Run()
}

// build builds the servers, once for all tests.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", built, "./internal/web-fetch", "./internal/transcript-clean",
		"./internal/mlxctl")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
})

// install copies the tools to a folder of their own, in which all may be called, and returns it.
func install(t *testing.T) string {
	t.Helper()
	dir := shipped(t)
	manifests, err := filepath.Glob(filepath.Join(dir, "*", "tool.yaml"))
	if err != nil || len(manifests) != 5 {
		t.Fatal(manifests, err)
	}
	for _, name := range manifests {
		edit(t, name, name, "status: planned", "status: active")
	}
	return dir
}

// shipped copies the tools to a folder of their own as they are, and builds their servers.
func shipped(t *testing.T) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, mcptools.Files); err != nil {
		t.Fatal(err)
	}
	edit(t, mcp.ServersFile, filepath.Join(dir, mcp.ServersFile), "", "")
	for _, name := range []string{"web-fetch", "transcript-clean", "mlxctl"} {
		to := filepath.Join(dir, "internal", name)
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// edit writes a file with another text in the place of one.
func edit(t *testing.T, from, to, old, text string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(strings.Replace(string(raw), old, text, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tools are the installed tools, as an executor runs them.
type tools struct {
	*testing.T
	registry *tool.Set
	adapter  *mcp.Adapter
}

// start installs the tools for an executor with these variables.
func start(t *testing.T, environ ...string) *tools {
	t.Helper()
	return startIn(t, install(t), environ...)
}

// startIn loads the tools that are installed in dir for an executor with these variables.
func startIn(t *testing.T, dir string, environ ...string) *tools {
	t.Helper()
	registry, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	adapter := mcp.New(mcp.Options{Environ: environ})
	t.Cleanup(adapter.Rest)
	for _, m := range registry.List() {
		if err := adapter.Validate(m); err != nil {
			t.Fatal(err)
		}
	}
	return &tools{t, registry, adapter}
}

// request is a call of a tool.
type request struct {
	tool, key string
	input     any
	within    time.Duration // half a minute unless said otherwise
	sink      tool.Sink
}

// asks makes a call. The input may break its schema, the output may not.
func (s *tools) asks(r request) (jsontext.Value, *envelope.Error) {
	s.Helper()
	m, _ := s.registry.Get(r.tool, "")
	input, err := json.Marshal(r.input)
	if err != nil {
		s.Fatal(err)
	}
	if r.within == 0 {
		r.within = 30 * time.Second
	}
	if r.sink == nil {
		r.sink = &tooltest.Recorder{}
	}
	ctx, cancel := context.WithTimeout(s.T.Context(), r.within)
	defer cancel()
	for name, fn := range m.Functions {
		result, err := s.adapter.Execute(ctx, m, tool.Invocation{
			CallID: "c7a2c5ce-3a43-4b0f-93a5-5b1e0d6a4f10", ToolID: m.ToolID, ToolVersion: m.Semver, Fn: name, Input: input,
			IdempotencyKey: r.key, Attempt: 1, Fence: 1, Deadline: time.Now().Add(r.within),
		}, r.sink)
		if err != nil {
			return nil, tool.ClassifyError(s.adapter, m, err)
		}
		if bad := fn.Response.Validate(result.Output); bad != nil {
			s.Errorf("%s: the output breaks its schema: %v", r.tool, bad)
		}
		return result.Output, nil
	}
	panic("unreachable: every tool has a function")
}

// gets makes a call that succeeds, and decodes its output.
func gets[Out any](s *tools, r request) (out Out) {
	s.Helper()
	raw, failure := s.asks(r)
	if failure != nil {
		s.Fatalf("%s: %v %+v", r.tool, failure, failure.Details)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		s.Fatal(err)
	}
	return out
}

// fails makes a call that fails without an effect: as the contract's error of that name, and for that reason.
func (s *tools) fails(r request, code, reason string) *envelope.Error {
	s.Helper()
	output, failure := s.asks(r)
	if failure == nil {
		s.Fatalf("%s succeeded with %.200s", r.tool, output)
	}
	said := strings.Trim(string(failure.Details.Extra["reason"]), `"`)
	if failure.Details.ToolCode != code || failure.Details.Effect != envelope.EffectNone || said != reason {
		s.Errorf("%s: %v, %+v; want %s, %s", r.tool, failure, failure.Details, code, reason)
	}
	return failure
}
