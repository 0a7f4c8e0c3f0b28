//go:build linux

package process_test

import (
	"github.com/go-json-experiment/json/jsontext"
	"os"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/process"
	"github.com/seed-018f16cc/toolbus/tool/tooltest"
)

// manifest is that of a tool that plays a part of this binary.
func manifest(part string, args ...string) *tool.Manifest {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &tool.Manifest{
		ToolID: "test." + part, Semver: "1.2.3", Status: tool.StatusActive, Determinism: tool.Idempotent,
		Transport: tool.TransportProcess,
		Endpoint:  tool.Endpoint{Command: append([]string{self, "play", part}, args...)},
		Limits: tool.Limits{
			TimeoutDefault: time.Minute, TimeoutMax: time.Minute, MemoryMB: 512, Concurrency: 8,
			OutputBytes: 1 << 20, StderrBytes: 8 << 10,
		},
	}
}

func newAdapter(t *testing.T, opts process.Options) *process.Adapter {
	t.Helper()
	a, err := process.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestConformance(t *testing.T) {
	tooltest.Run(t, func(t *testing.T) tooltest.Fixture {
		m := manifest("behave")
		m.Dir = t.TempDir()
		return tooltest.Fixture{Adapter: newAdapter(t, process.Options{}), Manifest: m, Processes: true}
	})
}

// callOf is an invocation of fn.
func callOf(fn, input string) tool.Invocation {
	return tool.Invocation{CallID: "c", ToolID: "t", ToolVersion: "1.2.3", Fn: fn, Input: jsontext.Value(input), Attempt: 1, Deadline: time.Now()}
}
